"""What real orderly consumers commit, by what their listeners answer: docs/protocol/queue-locks.md 3."""

import contextlib

import pytest
from offset_site import SOON_S, OffsetSite, consumed
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from peers.waiting import holds_for, wait_until
from peers.wire import GET_MAX_OFFSET, SUCCESS

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

QUERY_CONSUMER_OFFSET = 14
TOPIC = "Ordered"
SENT = 3
#: How often clients commit; 5 s by default.
PERSIST_MS = 500
#: What is not committed within so many times is not committed at all.
PERSISTS = 4
#: A broker of 4.9 delays a dead letter as any retry: level 6 after the third try, 2 min.
DEAD_LETTER_S = 300
SUSPEND = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
#: By result and `autoCommit`, the offset that is committed.
COMMITTED = {
    ("COMMIT", True): SENT,
    ("ROLLBACK", True): SENT,
    (SUSPEND, True): 0,
    ("SUCCESS", False): 0,
    ("ROLLBACK", False): 0,
    (SUSPEND, False): 0,
    ("COMMIT", False): SENT,
    ("SUCCESS", True): SENT,
}
#: Results after which the first message comes again and no other one.
STAYS = {(SUSPEND, True), ("ROLLBACK", False), (SUSPEND, False)}


@pytest.fixture(scope="module", params=[V5_5, V5_1, V4_9])
def site(request, tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("orderly"))) as lab:
        site = OffsetSite(lab, broker_version=request.param).ready()
        site.traffic = site.traffic("traffic", request.param)
        yield site


def receive(site, topic, group, **options):
    options = {"kind": "orderly", "from_": "FIRST_OFFSET", "persist_ms": PERSIST_MS} | options
    site.traffic.receive(f"c-{group}", topic=topic, group=group, **options)


def committed(site, topic, group):
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "setZeroIfNotFound": "false"}
    answer = site.caller.request(QUERY_CONSUMER_OFFSET, fields)
    return int(answer.fields["offset"]) if answer.code == SUCCESS else None


def test_offset_is_committed_as_the_table_of_results_shows(site):
    site.make_topics(TOPIC)
    for number in range(SENT):
        site.send(TOPIC, f"m:{number}")
    groups = {case: f"{case[0]}-{case[1]}" for case in COMMITTED}
    for (result, commits), group in groups.items():
        receive(site, TOPIC, group, result=result, auto_commit=str(commits).lower())

    def offsets(group):
        return [each.offset for each in consumed(group, site.traffic)]

    for case, group in groups.items():
        enough = lambda: len(offsets(group)) >= SENT  # noqa: E731, B023
        wait_until(enough, seconds=SOON_S, what=f"{group} has consumed {SENT} times")
        assert set(offsets(group)) == ({0} if case in STAYS else set(range(SENT)))
    # Each client commits when its own time comes: all have to have done so, and more than once.
    found = lambda: {case: committed(site, TOPIC, group) for case, group in groups.items()}  # noqa: E731
    wait_until(lambda: found() == COMMITTED, seconds=SOON_S, what=lambda: f"the offsets of the table, not {found()}")
    holds_for(lambda: found() == COMMITTED, seconds=PERSISTS * PERSIST_MS / 1000, what="the offsets of the table")


def test_message_that_always_fails_is_a_dead_letter_after_its_last_try_and_the_queue_goes_on(site):
    topic, group = "Poisoned", "poisoned"
    site.make_topics(topic)
    for number in range(SENT):
        site.send(topic, f"m:{number}")
    receive(site, topic, group, fails="m:1", max_reconsume_times=3)

    wait_until(lambda: committed(site, topic, group) == SENT, seconds=SOON_S, what="the queue goes on")
    assert [each.offset for each in consumed(group, site.traffic)] == [0, 1, 1, 1, 1, 2]
    dead = {"topic": f"%DLQ%{group}", "queueId": "0"}
    end = lambda: site.caller.request(GET_MAX_OFFSET, dead).fields.get("offset")  # noqa: E731
    wait_until(lambda: end() == "1", seconds=DEAD_LETTER_S, what="the message is a dead letter")
