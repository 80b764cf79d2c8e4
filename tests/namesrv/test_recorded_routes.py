"""What is recorded of routes tells every route exactly as it was served, whatever happens to the brokers."""

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from test_route_model import BrokerLives

from history.recorder import encoded
from history.rows import Moment, RowMaker
from namesrv import history_rows
from namesrv.history_rows import RouteProperties, SetsChanged, configured, snapshot
from timemachine.rows import Row
from timemachine.topic_story import TopicStory

TOPICS = ("T0", "T1", "T2", "%RETRY%g")
MOMENT = Moment(1_700_000_000_000_000, 1)


class RecordedLives(BrokerLives):
    """Writes down all that happens and reads it back, topic by topic."""

    def restart(self):
        super().restart()
        self.state.keeps_changes = True
        self.maker = RowMaker("host_9876", 1, "namesrv")
        self.read_back = {topic: TopicStory(topic) for topic in TOPICS}
        properties = RouteProperties(
            support_acting_master=self.config.support_acting_master, order_message_enable=False
        )
        self.record([configured(properties)])

    def record(self, happenings):
        lines = [encoded(row) for each in happenings for row in each.rows(self.maker, MOMENT)]
        for story in self.read_back.values():
            story.apply(msgspec.json.decode(line, type=Row) for line in lines)

    @rule(begins_there=st.booleans())
    def take_a_snapshot(self, begins_there):
        if begins_there:
            # Whoever begins to read here knows nothing of before.
            old, self.read_back = self.read_back, {topic: TopicStory(topic) for topic in TOPICS}
            for topic, story in self.read_back.items():
                story._properties = old[topic]._properties
        self.record(snapshot(self.state.tables, "S"))

    @invariant()
    def every_route_is_told(self):
        if not hasattr(self, "state"):
            return
        changes = self.state.take_changes()
        if changes:
            self.record([SetsChanged((), changes)])
        for topic, story in self.read_back.items():
            assert story.route() == self.state.route_of(topic, None)


@pytest.mark.parametrize("rows_max", [1000, 1], ids=["row by row", "in summaries"])
def test_a_route_is_read_back_as_it_was_served(monkeypatch, rows_max):
    monkeypatch.setattr(history_rows, "ROUTE_CHANGE_ROWS_MAX", rows_max)
    run_state_machine_as_test(RecordedLives, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))
