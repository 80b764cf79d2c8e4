"""When a group of each kind has consumed a queue."""

import pytest
from scaling_builders import BROKER, a_group, a_shrink, observed, waited, with_set

from controller.scaling.resize.observation import ClientView, GroupKind, GroupView
from controller.scaling.resize.operation import QueueId, first_sentences
from controller.scaling.rules.drained import RANGES_SHOWN, UndrainedQueue, check_drained, given_up
from serving.shapes.scaling import ResizeOptions, ResizePhase

ENDS = {2: 5}
SHRINK = a_shrink(ResizePhase.DRAIN)


def lags_of(group, offset, **values):
    offsets = {} if offset is None else {group.name: {2: offset}}
    observation = with_set(observed(SHRINK, 1, ends=ENDS, groups=[group], offsets=offsets), **values)
    return [each.reason for each in check_drained(SHRINK, observation, waited(0)).lags]


@pytest.mark.parametrize("kind", [each for each in GroupKind if each is not GroupKind.BROADCAST])
def test_stored_offset_has_to_be_at_the_end(kind):
    group = a_group(kind=kind)
    assert lags_of(group, 4) == ["1 messages are not consumed (4 of 5)"]
    assert lags_of(group, 5) == []
    assert lags_of(group, None) == ["no offset is stored: it has not begun"]


@pytest.mark.parametrize("kind", [GroupKind.PULL, GroupKind.ASSIGNED])
def test_messages_that_are_pulled_and_not_processed_count(kind):
    group = a_group(kind=kind, queues=(2,), cached=3)
    assert lags_of(group, 5) == ["3 messages are pulled and not processed"]


def test_each_broadcasting_client_has_to_be_at_the_end():
    behind = a_group(kind=GroupKind.BROADCAST, queues=(2,), commit_offset=4)
    assert lags_of(behind, None) == ["client billing@1 has 1 messages to consume"]
    assert lags_of(a_group(kind=GroupKind.BROADCAST, queues=(2,), commit_offset=5), None) == []
    holds = a_group(kind=GroupKind.BROADCAST, queues=(2,), commit_offset=5, cached=3)
    assert lags_of(holds, None) == ["client billing@1 has 3 messages to consume"]
    assert lags_of(a_group(kind=GroupKind.BROADCAST), None) == ["client billing@1 does not show the queue"]
    assert lags_of(a_group(kind=GroupKind.BROADCAST), None, broadcast_offsets={"billing": {2: 5}}) == []


def test_broadcasting_client_that_does_not_answer_is_not_drained():
    silent = GroupView(
        name="billing", kind=GroupKind.BROADCAST, clients=(ClientView(client_id="billing@1", queues=None),)
    )
    assert lags_of(silent, None) == ["client billing@1 does not report how far it is"]


@pytest.mark.parametrize(
    ("kind", "settle_ms"),
    [
        (GroupKind.CONCURRENT, 0),
        (GroupKind.POP, SHRINK.waits.pop_ms),
        (GroupKind.PULL, SHRINK.waits.process_ms),
        (GroupKind.ASSIGNED, SHRINK.waits.process_ms),
    ],
)
def test_group_settles_for_as_long_as_its_clients_process(kind, settle_ms):
    observation = observed(SHRINK, 1, ends=ENDS, groups=[a_group(kind=kind)], offsets={"billing": {2: 5}})
    first = check_drained(SHRINK, observation, waited(1_000))
    assert first.is_drained is (settle_ms == 0)
    later = waited(1_000 + settle_ms, settled_at_ms=first.progress.settled_at_ms)
    assert check_drained(SHRINK, observation, later).is_drained


def test_what_a_waived_group_gives_up_is_recorded():
    shrink = a_shrink(ResizePhase.DRAIN, options=ResizeOptions(waived_groups=("billing",)))
    observation = observed(shrink, 1, ends=ENDS, groups=[a_group()], offsets={"billing": {2: 1}})
    check = check_drained(shrink, observation, waited(0))
    assert check.is_drained
    assert check.waived == (
        f"group billing was not waited for: 4 messages in 1 queues of {BROKER} are given up: 2 (1 to 5)",
    )


def test_what_is_given_up_of_many_queues_is_one_sentence_for_a_broker_set():
    queues = RANGES_SHOWN + 3
    lags = [
        UndrainedQueue(group="billing", queue=QueueId(name, i), messages=2, reason="", end=5)
        for name in ("broker-b", "broker-a")
        for i in range(queues)
    ]
    first, second = given_up(lags)
    assert "billing was not waited for: 22 messages in 11 queues of broker-a are given up: 0 (3 to 5), 1 (" in first
    assert first.endswith("7 (3 to 5) and 3 more")
    assert "broker-b" in second
    unknown = UndrainedQueue(group="billing", queue=QueueId("broker-a", 0), messages=None, reason="")
    assert "an unknown number of messages in 1 queues of broker-a are given up: 0" in next(given_up([unknown]))
    assert "22 or more messages in 12 queues of broker-a" in next(given_up([*lags[queues:], unknown]))


def test_long_lists_of_lags_are_cut():
    observation = observed(SHRINK, 1, ends={2: 1, 3: 1}, groups=[a_group()])
    check = check_drained(SHRINK, observation, waited(0))
    assert first_sentences(list(map(str, check.lags)), 1)[1:] == ("and 1 more",)


def test_group_that_lags_has_not_begun_to_settle():
    observation = observed(SHRINK, 1, ends=ENDS, groups=[a_group(kind=GroupKind.POP)])
    check = check_drained(SHRINK, observation, waited(0))
    assert (tuple(check.settling), check.progress.settled_at_ms) == ((), {})
