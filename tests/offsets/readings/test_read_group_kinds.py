"""How groups consume, by what their members show."""

import pytest
from read_brokers import Brokers, ReadBroker
from reading_builders import NAME

from offsets.at_broker import MEMBERS_MAX, AtBroker
from offsets.readings import readings as kinds
from offsets.readings.readings import OLD_MS, STALE_MS, GroupKinds
from offsets.values import GroupKind, GroupTopic, is_pop_retry
from remoting.admin.client import AdminClient, AdminLimits

G = GroupTopic("g", "orders")


@pytest.fixture
def broker():
    return ReadBroker()


@pytest.fixture
def admin(broker):
    return AdminClient(Brokers(a=broker), AdminLimits())


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (["c1", "c2"], GroupKind.PULL),
        (["c1", "idle"], GroupKind.PULL),
        (["idle"], GroupKind.UNKNOWN),
        (["c1", "pop"], GroupKind.POP),
        (None, GroupKind.UNKNOWN),
        ([], GroupKind.UNKNOWN),
        ([f"c{number}" for number in range(MEMBERS_MAX + 1)], GroupKind.UNKNOWN),
    ],
)
async def test_a_group_pulls_only_if_all_of_its_members_show_it(broker, admin, members, expected):
    broker.groups = {} if members is None else {"g": members}
    assert (await AtBroker(admin, NAME, "a").members("g")).kind is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"messageModel": "BROADCASTING"}, GroupKind.BROADCAST), ({"consumeType": "CONSUME_POP"}, GroupKind.POP)],
)
async def test_what_the_broker_says_of_the_group_counts(broker, admin, fields, expected):
    broker.groups = {"g": ["c1"]}
    broker.group_fields |= fields
    assert (await AtBroker(admin, NAME, "a").members("g")).kind is expected


async def test_a_member_that_does_not_answer_leaves_the_group_unknown(broker, admin):
    broker.groups, broker.refused = {"g": ["c1"]}, {307: (207, "no answer")}
    assert (await AtBroker(admin, NAME, "a").members("g")).kind is GroupKind.UNKNOWN


async def test_groups_that_move_are_asked_once_a_minute(broker, admin):
    groups, broker.groups = GroupKinds(admin), {"g": ["c1"]}
    view = groups.of_cluster("C")
    for now_ms in (0, 5000, OLD_MS):
        groups.have_moved(NAME, "a", [G, G._replace(topic="bills")], now_ms)
        while await groups.ask_next(now_ms):
            pass

    assert broker.asked.count(203) == 2
    assert view == {"g": GroupKind.PULL}
    # Its members are gone: it is what it was.
    broker.groups = {}
    groups.have_moved(NAME, "a", [G], 3 * OLD_MS)
    await groups.ask_next(3 * OLD_MS)
    assert view == {"g": GroupKind.PULL}


async def test_what_was_found_long_ago_is_not_known_once_the_group_moves_unless_it_popped(broker, admin):
    groups, broker.groups = GroupKinds(admin), {"g": ["c1"], "h": ["pop"]}
    keys = [G, GroupTopic("h", "orders")]
    groups.have_moved(NAME, "a", keys, 0)
    assert [await groups.ask_next(0) for _ in range(3)] == [True, True, False]
    groups.have_moved(NAME, "a", keys, STALE_MS)
    assert groups.of_cluster("C") == {"g": GroupKind.UNKNOWN, "h": GroupKind.POP}
    await groups.ask_next(STALE_MS)
    assert groups.of_cluster("C")["g"] is GroupKind.PULL


async def test_no_more_groups_are_remembered_than_there_is_room_for(broker, admin, monkeypatch):
    monkeypatch.setattr(kinds, "GROUPS_MAX", 2)
    groups, broker.groups = GroupKinds(admin), {f"g{number}": ["c1"] for number in range(4)}
    for number in range(4):
        groups.have_moved(NAME, "a", [GroupTopic(f"g{number}", "orders")], 0)
        await groups.ask_next(0)
    assert groups.of_cluster("C").keys() == {"g2", "g3"}
    groups.have_moved(NAME, "a", [GroupTopic(f"h{number}", "orders") for number in range(9)], 0)
    asked = [await groups.ask_next(0) for _ in range(3)]
    assert asked == [True, True, False]


async def test_a_pop_retry_topic_shows_that_a_group_pops(admin):
    groups = GroupKinds(admin)
    groups.have_moved(NAME, "a", [GroupTopic("g", "%RETRY%g_orders")], 0)
    assert groups.of_cluster("C") == {"g": GroupKind.POP}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (GroupTopic("g", "%RETRY%g_orders"), True),
        (GroupTopic("g", "%RETRY%g+orders"), True),
        (GroupTopic("g_orders", "%RETRY%g_orders"), False),
        (GroupTopic("g", "orders"), False),
    ],
)
def test_pop_retry_topics_are_told_from_ordinary_ones(key, expected):
    assert is_pop_retry(key) is expected
