"""Topics of units, and those with subscriptions of units, are listed as the original lists them."""

import pytest
from peers.waiting import wait_until
from peers.wire import GET_UNIT_SUB_ORDINARY_TOPICS, GET_UNIT_SUB_TOPICS, GET_UNIT_TOPICS, brokers_in

pytestmark = [pytest.mark.broad, pytest.mark.java]

#: How mqadmin makes a topic of each kind.
KINDS = {
    "kind_ordinary": "",
    "kind_unit": "-u true",
    "kind_sub": "-s true",
    "kind_both": "-u true -s true",
}

LISTED = {
    GET_UNIT_TOPICS: {"kind_unit", "kind_both"},
    GET_UNIT_SUB_TOPICS: {"kind_sub", "kind_both"},
    GET_UNIT_SUB_ORDINARY_TOPICS: {"kind_sub"},
}


@pytest.fixture(scope="module")
def topics(fleet, mqadmin):
    """One topic of each kind on all masters, known to our NameServer and to the original."""
    masters = {broker.name for broker in fleet.masters}
    for topic, options in KINDS.items():
        words = f"-c DefaultCluster -t {topic} {options}".split()
        mqadmin.update_topic(*words, namesrv=[fleet.namesrv.address])
    for server in (fleet.namesrv, fleet.original):
        for topic in KINDS:
            wait_until(lambda at=server, of=topic: brokers_in(at.caller.route(of)) == masters, seconds=5, what=topic)
    return set(KINDS)


def listed(server, code):
    answer = server.caller.request(code)
    assert answer.code == 0, answer
    return set(answer.json["topicList"])


@pytest.mark.parametrize("code", LISTED)
def test_each_list_has_the_topics_of_its_kind_and_is_that_of_the_original(fleet, topics, code):
    ours = listed(fleet.namesrv, code)
    assert ours & topics == LISTED[code]
    assert ours == listed(fleet.original, code)


@pytest.mark.parametrize("topic", KINDS)
def test_a_route_carries_the_flags_of_its_unit_as_the_original_does(fleet, topics, topic):
    def flags(server):
        return {queue["brokerName"]: queue["topicSysFlag"] for queue in server.caller.route(topic)["queueDatas"]}

    assert flags(fleet.namesrv) == flags(fleet.original)
    assert set(flags(fleet.namesrv).values()) == {("-u" in KINDS[topic]) + 2 * ("-s" in KINDS[topic])}
