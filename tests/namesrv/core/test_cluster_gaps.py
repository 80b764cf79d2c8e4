"""How much operators are told of what routes do not show; of what, is in `test_route_model.py`."""

from builders import BROKER, TOPIC, a_data_version, topic_configs
from clusters import register
from route_states import lose_connection

from namesrv.core.cluster_gaps import gaps_of
from namesrv.core.route_state import RouteState
from namesrv.core.tables.lost_topics import NAMES_MAX, SETTLE_MS, LostTopicTable
from namesrv.core.values.cooperative import run_to_completion
from namesrv.settings.config import NameServerConfig
from remoting.protocol.fastjson import Dialect, encode

#: Of the topic that no slave has copied yet.
NEWER = a_data_version(counter=2)
COPIED = topic_configs(TOPIC, BROKER)


def test_few_of_very_many_lost_topics_are_named():
    table = LostTopicTable()
    table.put(BROKER, {f"topic-{number}" for number in range(1000)}, 0)
    ((_, losses),) = table.report(SETTLE_MS)
    assert (len(losses.topics), len(losses.names)) == (1000, NAMES_MAX)


def test_gaps_of_a_host_with_very_many_leave_the_answer_short_and_those_of_others_in_it():
    state = RouteState(NameServerConfig())

    def fail_over(number, name, network, *topics):
        known = {"broker_name": name, "network": network, "cluster": "c" * 255}
        address = {"address": f"{name[:7]}:2", "broker_id": 1, "connection_id": 2 + number}
        register(state, **known, **address, topics=COPIED)
        register(state, **known, topics=topic_configs(TOPIC, BROKER, *topics), data_version=NEWER)
        lose_connection(state, 1, 0)
        register(state, **known, **(address | {"broker_id": 0}), topics=COPIED)

    for number in range(1100):
        topics = [f"{number} {topic} " + "\u4e2d" * 1000 for topic in range(10)]
        fail_over(number, f"{number:07}{'n' * 248}", "10.6.6.6", *topics)
    fail_over(2000, "real", "10.9.9.9", "Orders")
    state.lost_topics.report(SETTLE_MS)
    lost = run_to_completion(gaps_of(state, 0))["lostTopics"]
    assert lost[-1].broker_name == "real"
    assert len(encode(lost, Dialect.STANDARD)) < 520 * 1024
