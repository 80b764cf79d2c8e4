"""What is done with the offset of a group in a queue after a failover, case by case."""

import pytest
from repair_builders import KEY, a_broker, a_copy, a_queue, a_reading, before

from offsets.repair.rules import decide
from offsets.values import GroupKind, GroupMembers, GroupTopic
from serving.shapes.offsets import Outcome

OFFLINE = GroupMembers(GroupKind.UNKNOWN)
SILENT = GroupMembers(GroupKind.UNKNOWN, is_online=True)
POPS = GroupMembers(GroupKind.POP, is_online=True)
BROADCASTS = GroupMembers(GroupKind.BROADCAST, is_online=True)


def held(position):
    return GroupMembers(GroupKind.PULL, is_online=True, positions={("t", 0): position})


def of(decision):
    return decision.outcome, decision.offset


PUSHED = Outcome.PUSHED, 100
RIGHT = Outcome.RIGHT, None
NOT_PROVED = Outcome.NOT_PROVED, None


@pytest.mark.parametrize(
    ("known", "queue", "expected"),
    [
        pytest.param(before(), a_queue(60), PUSHED, id="an old copy is raised"),
        pytest.param(before(copies=[a_copy(None)]), a_queue(None), PUSHED, id="no copy at all is raised"),
        pytest.param(before(), a_queue(100), RIGHT, id="the same is left"),
        pytest.param(before(), a_queue(130), RIGHT, id="what has more is left"),
        pytest.param(before([a_reading(None)]), a_queue(60), RIGHT, id="what no reading has is left"),
        pytest.param(before(), a_queue(60, proved=80), (Outcome.PUSHED, 80), id="raised as far as messages prove"),
        pytest.param(before(), a_queue(60, proved=60), RIGHT, id="nothing more is proved than is shown"),
        pytest.param(before(), a_queue(60, proved=None, why="made anew"), NOT_PROVED, id="a topic made anew"),
        pytest.param(before(), a_queue(60, proved=None), NOT_PROVED, id="nobody has looked at its message"),
        pytest.param(before(), a_queue(60, min_offset=100), RIGHT, id="what has expired needs nothing"),
        pytest.param(before(), a_queue(60, members=held(150)), PUSHED, id="its member is further"),
        pytest.param(before(), a_queue(60, members=held(70)), (Outcome.PUSHED, 70), id="its member is not so far"),
        pytest.param(before(), a_queue(60, members=held(40)), RIGHT, id="its member went back"),
        # Who changed it
        pytest.param(before(copies=[a_copy(50)]), a_queue(60), RIGHT, id="changed since it was read as a replica"),
        pytest.param(before(copies=[a_copy(60)]), a_queue(None), RIGHT, id="deleted since then"),
        pytest.param(
            before(copies=[a_copy()]), a_queue(60), RIGHT, id="only looked at once: it may have changed before"
        ),
        pytest.param(
            before(copies=[a_copy(90, ago_ms=9_000), a_copy(60)]), a_queue(60), RIGHT, id="set back before the reading"
        ),
        pytest.param(
            before([a_reading(55, ago_ms=10_000), a_reading()], [a_copy(40, ago_ms=9_900), a_copy(60)]),
            a_queue(60),
            PUSHED,
            id="copied between two looks",
        ),
        pytest.param(
            before([a_reading(70, ago_ms=10_000), a_reading()], [a_copy(40, ago_ms=9_900), a_copy(60)]),
            a_queue(60),
            RIGHT,
            id="committed to the replica itself: the master had more",
        ),
        pytest.param(
            before([a_reading(70, ago_ms=10_000), a_reading()], [a_copy(None, ago_ms=9_900), a_copy(60)]),
            a_queue(60),
            RIGHT,
            id="its first offset is less than the master had",
        ),
        pytest.param(
            before([a_reading(100, ago_ms=9_000), a_reading(40, ago_ms=5_000, first_end=20_000)]),
            a_queue(20, proved=100),
            RIGHT,
            id="a replica that no copy was read of since",
        ),
        pytest.param(
            before(
                [a_reading(100, ago_ms=9_000), a_reading(40, first_end=20_000)], [a_copy(20, ago_ms=9_900), a_copy(20)]
            ),
            a_queue(20, proved=100),
            (Outcome.PUSHED, 40),
            id="a rewind that a later reading shows",
        ),
        pytest.param(
            before([a_reading(100, ago_ms=9_000), a_reading(None, first_end=20_000)], [a_copy(20)]),
            a_queue(20, proved=100),
            RIGHT,
            id="a deletion that a later reading shows",
        ),
        # What the log proves
        pytest.param(before(same_until=4_000), a_queue(60), NOT_PROVED, id="the log is not proved so far"),
        pytest.param(before(same_until=0, problem="silent"), a_queue(60), NOT_PROVED, id="nothing is proved"),
        pytest.param(before([a_reading(ago_ms=61_000)]), a_queue(60), NOT_PROVED, id="a reading of long ago"),
        pytest.param(
            before(copies=[a_copy(60, ago_ms=9_000)]), a_queue(60), NOT_PROVED, id="not read as a replica since"
        ),
        pytest.param(before(copies=[]), a_queue(60), NOT_PROVED, id="started again: never a replica"),
        pytest.param(
            before([a_reading(ago_ms=9_000, master="10.0.0.3:10911"), a_reading(None)], [a_copy(60)]),
            a_queue(60),
            RIGHT,
            id="only a former master had it",
        ),
        # Kinds of groups
        pytest.param(before(), a_queue(60, members=POPS), NOT_PROVED, id="it pops"),
        pytest.param(before(), a_queue(60, members=OFFLINE), NOT_PROVED, id="nobody is connected"),
        pytest.param(before(), a_queue(60, members=SILENT), NOT_PROVED, id="a member does not tell"),
        pytest.param(before(), a_queue(60, members=BROADCASTS), RIGHT, id="it broadcasts"),
        pytest.param(
            before([a_reading(kinds={"g": GroupKind.POP})]), a_queue(60), NOT_PROVED, id="it popped when it was read"
        ),
        pytest.param(
            before([a_reading(offsets={GroupTopic("g", "t"): {0: 100}, GroupTopic("g", "%RETRY%g_t"): {0: 1}})]),
            a_queue(60),
            NOT_PROVED,
            id="it has a pop retry topic",
        ),
    ],
)
def test_an_offset_of_the_same_log(known, queue, expected):
    assert of(decide(known, queue, a_broker())) == expected


@pytest.mark.parametrize("members", [OFFLINE, SILENT])
def test_a_group_whose_members_do_not_tell_is_asked_again(members):
    assert decide(before(), a_queue(60, members=members), a_broker()).waits


@pytest.mark.parametrize(
    ("members", "kinds", "expected"),
    [
        pytest.param(POPS, {}, NOT_PROVED, id="it pops"),
        pytest.param(OFFLINE, {}, NOT_PROVED, id="it may pop"),
        pytest.param(OFFLINE, {"g": GroupKind.PULL}, RIGHT, id="it pulled when it was read"),
        pytest.param(held(100), {}, RIGHT, id="it pulls"),
    ],
)
def test_what_was_popped_is_lost_with_a_master_that_keeps_it_in_a_store_of_its_own(members, kinds, expected):
    known = before([a_reading(kinds=kinds)])
    assert of(decide(known, a_queue(100, members=members), a_broker(pops_in_kv=True))) == expected


def parted(newest=1_000, *, copies=None, **values):
    return before([a_reading(newest)], copies, parted_at=4_000, same_until=3_900, **values)


@pytest.mark.parametrize(
    ("known", "queue", "expected"),
    [
        pytest.param(parted(), a_queue(950, parted_at=900), (Outcome.SET_BACK, 900), id="shown beyond the parting"),
        pytest.param(parted(), a_queue(500, parted_at=900), (Outcome.SET_BACK, 500), id="shown before it"),
        pytest.param(parted(70), a_queue(950, parted_at=900), (Outcome.SET_BACK, 70), id="more than its master had"),
        pytest.param(parted(None), a_queue(950, parted_at=900), NOT_PROVED, id="its master had none"),
        pytest.param(parted(), a_queue(None, parted_at=900), NOT_PROVED, id="no offset, and nothing proves one"),
        pytest.param(parted(), a_queue(None, parted_at=0), (Outcome.SET_BACK, 0), id="an emptied store"),
        pytest.param(
            parted(), a_queue(500, parted_at=900, members=held(880)), NOT_PROVED, id="its member is not beyond"
        ),
        pytest.param(
            parted(), a_queue(500, parted_at=900, members=held(901)), (Outcome.SET_BACK, 500), id="its member is beyond"
        ),
        pytest.param(
            before([a_reading(1_000)], [a_copy(500, ago_ms=9_900), a_copy(500)], parted_at=9_000, same_until=9_000),
            a_queue(500, parted_at=900, proved=880),
            (Outcome.SET_BACK, 880),
            id="raised no further than a reading proves",
        ),
        pytest.param(
            before([a_reading(1_000)], [a_copy(None)], parted_at=9_000, same_until=9_000),
            a_queue(None, parted_at=900, proved=950),
            (Outcome.SET_BACK, 900),
            id="raised no further than the parting",
        ),
        pytest.param(parted(), a_queue(950, parted_at=900, members=OFFLINE), (Outcome.SET_BACK, 900), id="offline"),
        pytest.param(parted(), a_queue(900, parted_at=900, members=OFFLINE), RIGHT, id="offline, and set already"),
        pytest.param(parted(), a_queue(950, parted_at=900, members=POPS), NOT_PROVED, id="it pops"),
        pytest.param(parted(), a_queue(950, parted_at=900, members=SILENT), NOT_PROVED, id="a member does not tell"),
        pytest.param(parted(), a_queue(950, parted_at=900, members=BROADCASTS), RIGHT, id="it broadcasts"),
        pytest.param(parted(300), a_queue(300, parted_at=900), RIGHT, id="it was never there"),
    ],
)
def test_an_offset_where_the_logs_have_parted(known, queue, expected):
    assert of(decide(known, queue, a_broker())) == expected


def test_members_that_are_online_are_sent_back():
    queue = a_queue(950, parted_at=900)
    assert decide(parted(), queue, a_broker()).sends_members
    old = decide(parted(), queue, a_broker(resets_on_server=False))
    assert of(old) == NOT_PROVED
    assert "restart them" in old.why


def test_nobody_is_sent_back_by_itself_long_after_the_change():
    decision = decide(parted(), a_queue(950, parted_at=900), a_broker(behind=Outcome.WOULD_CHANGE))
    assert of(decision) == (Outcome.WOULD_CHANGE, 900)


def test_groups_of_brokers_and_tools_light_queues_and_broadcasters_are_left_out():
    offsets = {
        GroupTopic(group, topic): {0: 1, 1: 2}
        for group, topic in [
            ("g", "t"),
            ("g", "%LMQ%t"),
            ("g@broadcast", "t"),
            ("CID_RMQ_SYS_TRANS", "t"),
            ("TOOLS_CONSUMER", "t"),
        ]
    }
    known = before([a_reading(offsets=offsets)])
    assert [tuple(key) for key in known.keys({})] == [(KEY.group, "t", 0), (KEY.group, "t", 1)]
    assert known.keys({})
