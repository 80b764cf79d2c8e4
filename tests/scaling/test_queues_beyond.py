"""What brokers of every release do with queues at and beyond the numbers of a topic, and what request 17 replaces."""

import pytest
from peers.jars import V5_5
from peers.waiting import wait_until
from peers.wire import SUCCESS, SYSTEM_ERROR, TOPIC_NOT_EXIST

from scaling.sites import (
    GET_ALL_GROUPS,
    GET_CONSUMERS,
    GET_GROUP,
    GET_TOPIC_CONFIG,
    GET_TOPIC_STATS,
    NO_SUCH_GROUP,
    NOT_FOUND,
    NOT_ONLINE,
    NOT_SUPPORTED,
    UPDATE_TOPIC,
)

pytestmark = pytest.mark.java


@pytest.mark.parametrize(("read", "write"), [(4, 2), (2, 4)])
def test_messages_are_accepted_below_the_larger_number(site, read, write):
    topic = f"Sent{read}{write}"
    site.set_queues(topic, read=read, write=write)

    assert [site.send(topic, queue) for queue in (0, 3)] == [SUCCESS, SUCCESS]
    assert [site.send(topic, queue) for queue in (4, 9)] == [site.illegal, site.illegal]


def test_pulls_are_refused_from_the_read_number_on(site):
    site.set_queues("Pulled", read=2, write=4)
    for queue in (1, 2):
        assert site.send("Pulled", queue) == SUCCESS

    wait_until(lambda: site.pull("Pulled", 1) == SUCCESS, seconds=10, what="the message is in its queue")
    assert [site.pull("Pulled", queue) for queue in (2, 3)] == [site.illegal, site.illegal]


def test_offsets_of_queues_beyond_are_stored_and_read(site):
    site.set_queues("Stored", read=4, write=4)
    for queue in (1, 3):
        assert site.send("Stored", queue) == SUCCESS
    site.set_queues("Stored", read=2, write=2)
    site.pull("Stored", 0)

    wait_until(lambda: site.max_offset("Stored", 3) == 1, seconds=10, what="the message is in its queue")
    assert (site.min_offset("Stored", 3), site.max_offset("Stored", 7), site.min_offset("Stored", 7)) == (0, 0, 0)
    for queue in (3, 7):
        assert site.commit("pulling", "Stored", queue, 5) == SUCCESS
        assert site.committed("pulling", "Stored", queue).fields == {"offset": "5"}
    assert site.offsets("Stored@pulling") == {"3": 5, "7": 5}


def test_queues_that_are_no_longer_written_are_left_out_of_statistics_before_5_3(site):
    site.set_queues("Statistics", read=4, write=2)

    listed = len(site.asked(GET_TOPIC_STATS, {"topic": "Statistics"})["offsetTable"])

    assert listed == (4 if site.version == V5_5 else 2)


def test_only_5_x_proves_that_no_offset_is_stored(site):
    site.set_queues("Unstored", read=1, write=1)

    answer = site.committed("nobody", "Unstored", 0)

    assert (answer.code, answer.fields) == ((SUCCESS, {"offset": "0"}) if site.is_4_9 else (NOT_FOUND, {}))


def test_delayed_message_arrives_in_a_queue_beyond_the_read_number(site):
    site.set_queues("Delayed", read=4, write=4)
    assert site.send("Delayed", 3, delay_level=2) == SUCCESS
    site.set_queues("Delayed", read=2, write=2)

    wait_until(lambda: site.max_offset("Delayed", 3) == 1, seconds=20, what="the message is delivered")
    assert site.pull("Delayed", 3) == site.illegal


def test_update_replaces_all_but_attributes(site):
    site.set_queues("Replaced", read=4, write=4, order=True, topicSysFlag=1, attributes="+message.type=NORMAL")
    before = site.topic("Replaced")
    site.set_queues("Replaced", read=5, write=4, perm=4)
    after = site.topic("Replaced")

    stored = {} if site.is_4_9 else {"attributes": {"message.type": "NORMAL"}}
    assert before == before | stored | {"order": not site.is_4_9, "topicSysFlag": 1, "perm": 6}
    assert after == before | {"order": False, "topicSysFlag": 0, "perm": 4, "readQueueNums": 5}


def test_update_changes_nothing_if_an_attribute_is_refused(site):
    site.set_queues("Refused", read=1, write=1, attributes="+cleanup.policy=DELETE")
    fields = {"topic": "Refused", "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}

    codes = [
        site.request(UPDATE_TOPIC, fields | {"attributes": changes}).code
        for changes in ("+cleanup.policy=COMPACTION", "+unknown=1")
    ]

    # 4.9 knows of no attributes, so that nothing is wrong with these.
    assert codes == [SUCCESS if site.is_4_9 else SYSTEM_ERROR] * 2
    assert site.topic("Refused")["readQueueNums"] == (2 if site.is_4_9 else 1)


def test_topic_without_write_permission_is_written(site):
    site.set_queues("ReadOnly", read=1, write=1, perm=4)

    assert site.send("ReadOnly", 0) == SUCCESS


def test_topics_are_requested_one_by_one_from_5_0_on(site):
    codes = [site.request(GET_TOPIC_CONFIG, {"topic": topic}).code for topic in ("TBW102", "Nowhere")]

    assert codes == ([NOT_SUPPORTED] * 2 if site.is_4_9 else [SUCCESS, TOPIC_NOT_EXIST])


def test_offsets_of_unknown_groups_and_topics_are_refused_by_newer_brokers(site):
    site.set_queues("Known", read=1, write=1)

    assert site.commit("unknown-group", "Known", 0, 1) == (NO_SUCH_GROUP if site.version == V5_5 else SUCCESS)
    assert site.commit("unknown-group", "Unknown", 0, 1) == (
        {V5_5: NO_SUCH_GROUP}.get(site.version, SUCCESS if site.is_4_9 else TOPIC_NOT_EXIST)
    )


def test_request_for_an_unknown_group_creates_it_on_5_5(site):
    code = site.request(GET_GROUP, {"group": "looked-for"}).code

    assert code == {V5_5: SUCCESS}.get(site.version, NOT_SUPPORTED if site.is_4_9 else SYSTEM_ERROR)
    groups = site.asked(GET_ALL_GROUPS)["subscriptionGroupTable"]
    assert ("looked-for" in groups) == (site.version == V5_5)


def test_group_without_members_is_not_online(site):
    assert site.request(GET_CONSUMERS, {"consumerGroup": "nobody"}).code == NOT_ONLINE
