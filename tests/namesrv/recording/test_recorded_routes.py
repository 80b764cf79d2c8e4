"""What is recorded of routes tells every route exactly as it was served, whatever happens to the brokers."""

import msgspec
import pytest
from builders import BROKER, READ_ONLY, TOPIC, a_broker_set, a_mapping, a_registration, queue_datas
from msgspec import UNSET
from route_states import register_broker
from route_tables import pieces_of, route_tables
from test_route_model import TOPICS, Lives, play_histories

from history.past.rows import StoredRow
from history.past.topic_replay import TopicReplay
from history.rows import Moment, RowMaker, encoded
from namesrv.core.route_state import RouteState
from namesrv.recording import rows
from namesrv.recording.rows import RouteProperties, SetsChanged, configured, order_configuration, snapshot
from namesrv.settings.config import NameServerConfig

FEW_TOPICS = TOPICS[:4]
MOMENT = Moment(1_700_000_000_000_000, 1)


class RecordedLives(Lives):
    """Writes down all that happens and reads it back, topic by topic."""

    def __init__(self, config):
        super().__init__(config)
        self.maker = RowMaker("host_9876", 1, "namesrv")
        self.read_back = {topic: TopicReplay(topic) for topic in FEW_TOPICS}
        self.steps = 0
        self.record_properties(config)

    def configure(self, config):
        super().configure(config)
        self.record_properties(config)

    def record_properties(self, config):
        support = config.support_acting_master
        self.record([configured(RouteProperties(support_acting_master=support, order_message_enable=False))])

    def record(self, happenings):
        rows = [row for each in happenings for row in each.rows(self.maker, MOMENT)]
        for story in self.read_back.values():
            story.apply(msgspec.json.decode(encoded(row), type=StoredRow) for row in rows)
        return {row.columns["event_type"] for row in rows}

    def take_a_snapshot(self, *, begins_there):
        if begins_there:
            # Whoever begins to read here knows nothing of before.
            old, self.read_back = self.read_back, {topic: TopicReplay(topic) for topic in FEW_TOPICS}
            for topic, story in self.read_back.items():
                story._properties = old[topic]._properties
        # Who counts changes counts none of it.
        assert self.record(pieces_of(self.state.tables)) <= {"snapshot", "queues", "finished"}

    def check(self):
        """Compare every route with what is recorded of it, but for mappings and filter servers."""
        changes = self.state.take_changes()
        if changes:
            self.record([SetsChanged((), changes)])
        self.steps += 1
        if self.steps % 9 == 0:
            self.take_a_snapshot(begins_there=self.steps % 2 == 0)
        for topic, story in self.read_back.items():
            assert recorded(story.route()) == recorded(self.state.route_of(topic, None))


def recorded(route):
    return route and msgspec.structs.replace(route, topic_queue_mapping_by_broker=UNSET, filter_server_table={})


def test_what_changes_while_a_piece_of_a_snapshot_is_put_together_is_in_it():
    tables = route_tables(a_broker_set(broker_name="a"))
    tables.topics.put("a", queue_datas("early", broker_name="a"))
    changes, recorded = [], []
    for piece in snapshot(tables, "S", lambda: len(changes)):
        if piece is None:
            tables.topics.put("a", queue_datas("early", broker_name="a", perm=READ_ONLY))
            changes.append("perm")
        else:
            recorded += [row.columns for row in piece.rows(RowMaker("host_9876", 1, "namesrv"), MOMENT)]
    assert [row["perm"] for row in recorded if "early" in row.get("topics", ())] == [READ_ONLY]


@pytest.mark.parametrize("rows_max", [1000, 1], ids=["row by row", "in summaries"])
def test_a_route_is_read_back_as_it_was_served(monkeypatch, rows_max):
    monkeypatch.setattr(rows, "ROUTE_CHANGE_ROWS_MAX", rows_max)
    play_histories(range(20), RecordedLives)


def test_a_snapshot_counts_the_rows_of_its_topics_however_many_topics_share_them():
    tables = route_tables(a_broker_set(broker_name="a"), a_broker_set(broker_name="b"))
    tables.topics.put("a", queue_datas(*(f"alike-{n}" for n in range(100)), broker_name="a"))
    tables.topics.put("b", queue_datas("alike-7", broker_name="b", perm=READ_ONLY))
    maker = RowMaker("host_9876", 1, "namesrv")
    rows = [row.columns for piece in pieces_of(tables) for row in piece.rows(maker, MOMENT)]
    recorded = [row for row in rows if row["event_type"] == "queues"]
    finished = [row["rows"] for row in rows if row["event_type"] == "finished"]
    assert sum(len(row["topics"]) for row in recorded) > 100 > len(recorded)
    assert finished == [len(recorded)]


def test_mappings_and_orders_are_shown_in_snapshots_and_are_no_changes_there():
    state = RouteState(NameServerConfig())
    register_broker(state, a_registration(mappings={TOPIC: a_mapping()}), 0)
    maker = RowMaker("host_9876", 1, "namesrv")
    properties = RouteProperties(support_acting_master=False, order_message_enable=True)
    pieces = [configured(properties), order_configuration("snapshot", TOPIC, f"{BROKER}:8"), *pieces_of(state.tables)]
    rows = [row for piece in pieces for row in piece.rows(maker, MOMENT)]
    assert {row.columns["event_type"] for row in rows} == {"configured", "snapshot", "queues", "finished"}
    story = TopicReplay(TOPIC)
    story.apply(msgspec.json.decode(encoded(row), type=StoredRow) for row in rows)
    route = story.route()
    assert route == state.route_of(TOPIC, f"{BROKER}:8")
    assert (route.order_topic_conf, list(route.topic_queue_mapping_by_broker)) == (f"{BROKER}:8", [BROKER])
