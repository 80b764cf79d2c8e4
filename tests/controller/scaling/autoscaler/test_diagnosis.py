import pytest
from signal_builders import a_group, a_set, a_topic

from controller.scaling.autoscaler.diagnosis import diagnose
from controller.scaling.autoscaler.findings import Effect, FindingKind
from controller.scaling.autoscaler.signals import QueueProgress, SetSignals
from controller.scaling.resize.observation import GroupKind

BEHIND_MS = 30_000


def found(**topic):
    return diagnose(a_topic(**topic), BEHIND_MS)


def kinds(**topic):
    return [finding.kind for finding in found(**topic)]


def test_consumers_without_a_queue_are_found_with_the_numbers():
    (finding,) = found()
    assert finding.effect is Effect.HELP
    assert finding.sentence == (
        "group billing: 12 consumers, 8 queues: 4 have none; lag is 4000 messages and grows by 320 messages/s"
    )
    assert finding.numbers["clients_without_queue"] == 4
    assert finding.numbers["queue_tps"] == 100


def test_holders_that_clients_reported_count_before_their_number():
    (finding,) = found(groups={"billing": a_group(holders=5)})
    assert finding.numbers["clients_without_queue"] == 7


def test_fewer_consumers_than_queues_are_a_slow_listener():
    (finding,) = found(groups={"billing": a_group(clients=4)})
    assert finding.kind is FindingKind.SLOW_LISTENER
    assert finding.effect is Effect.DO_NOT_HELP
    assert "4 consumers, 8 queues: each consumer has a queue" in finding.sentence


def uneven(lagging: int):
    """12 clients of 16 queues, of which these are behind."""
    group = a_group(clients=12, queues=16, lag=0, trend=0.0)
    behind = a_group(queues=lagging, lag=5000, trend=20.0).queues
    return type(group)(kind=group.kind, clients=group.clients, queues=(*behind, *group.queues[lagging:]))


def test_clients_with_more_queues_than_others_are_found_if_only_they_are_behind():
    sets = {"broker-a": a_set(queues=16)}
    (finding,) = found(sets=sets, groups={"billing": uneven(8)})
    assert finding.kind is FindingKind.UNEVEN_QUEUES
    assert "4 hold more queues than the others, and only they are behind" in finding.sentence
    assert kinds(sets=sets, groups={"billing": uneven(9)}) == [FindingKind.SLOW_LISTENER]


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        (a_group(GroupKind.ORDERLY, clients=4), FindingKind.ORDERLY_QUEUES_AT_LIMIT),
        (a_group(GroupKind.POP), FindingKind.SHARED_QUEUES),
        (a_group(GroupKind.BROADCAST), FindingKind.CALM),
        (a_group(consumed=0.0), FindingKind.OFFSETS_STAND_STILL),
        (a_group(clients=0), FindingKind.NO_CLIENTS),
        # It catches up soon, or too slowly.
        (a_group(lag=20_000, trend=-50.0), FindingKind.CALM),
        (a_group(lag=20_000, trend=-5.0), FindingKind.CLIENTS_WITHOUT_QUEUE),
        # Consumers without a queue are no need while nothing lags.
        (a_group(lag=10, trend=0.0), FindingKind.CALM),
    ],
)
def test_state_of_a_group_tells_what_it_lacks(group, kind):
    assert kinds(groups={"billing": group}) == [kind]


def test_lag_in_the_queue_of_one_hot_key_is_not_helped():
    group = a_group()
    hot = QueueProgress("broker-a", 0, 90_000, 700.0, 100.0)
    group = type(group)(kind=group.kind, clients=group.clients, queues=(hot, *group.queues[1:]))
    (finding,) = found(sets={"broker-a": a_set(write_tps=(800.0, *[20.0] * 7))}, groups={"billing": group})
    assert finding.kind is FindingKind.HOT_KEY
    assert "queue 0 of broker-a gets 800 messages/s" in finding.sentence


@pytest.mark.parametrize(
    ("load", "sentence"),
    [
        ({"queue_wait_ms": 150.0}, "requests wait 150 ms"),
        ({"is_page_cache_busy": True}, "its page cache is busy"),
        ({"put_tps": 9_500.0, "put_tps_limit": 10_000.0}, "9500 of at most 10000 messages/s come in"),
    ],
)
def test_broker_that_is_slow_as_a_whole_is_found(load, sentence):
    slow = [each for each in found(sets={"broker-a": a_set(**load)}) if each.kind is FindingKind.SLOW_BROKER]
    assert slow[0].sentence == f"broker set broker-a is slow as a whole: {sentence}"


def test_writes_near_the_limit_of_a_queue_are_found():
    (finding,) = found(sets={"broker-a": a_set(write_tps=900.0, queue_tps_limit=1000.0)}, groups={})
    assert finding.kind is FindingKind.WRITES_NEAR_LIMIT
    assert finding.sentence == "broker set broker-a: 900 messages/s come into each of 8 queues, of at most 1000"


def test_one_hot_queue_near_its_limit_is_no_reason_to_grow():
    rates = (900.0 * 8, *[10.0] * 7)
    assert kinds(sets={"broker-a": a_set(write_tps=rates, queue_tps_limit=1000.0)}, groups={}) == [FindingKind.CALM]


@pytest.mark.parametrize(
    "group",
    [
        a_group(kind=None),
        a_group(clients=None),
        a_group(lag=None),
        a_group(trend=None),
        a_group(consumed=None),
        a_group(queues=0),
    ],
)
def test_unknown_of_a_group_is_missing_data(group):
    (finding,) = found(groups={"billing": group})
    assert (finding.kind, finding.effect) == (FindingKind.MISSING_DATA, Effect.UNKNOWN)


@pytest.mark.parametrize("sets", [{}, {"broker-a": SetSignals()}, {"broker-a": a_set(write_tps=(None,) * 8)}])
def test_unknown_of_a_set_is_missing_data(sets):
    assert FindingKind.MISSING_DATA in kinds(sets=sets, groups={})
