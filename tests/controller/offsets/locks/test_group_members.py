"""Members of groups as brokers list them, and which of them are lost for certain."""

import pytest
from holder_builders import GROUP, a_member, connections, members_at

from controller.offsets.locks import group_members
from controller.offsets.locks.group_members import CLIENTS_PER_LIST_MAX, LOST_MS, UNLISTED_MS

FIRST, SECOND = "10.0.0.1:10911", "10.0.0.2:10911"


def test_member_is_reached_through_the_brokers_that_list_it():
    members = members_at({SECOND: ["c1"], FIRST: ["c1", "c2"]})
    assert members.clients_of(GROUP) == ("c1", "c2")
    assert members.brokers_of(a_member("c1")) == (FIRST, SECOND)
    assert members.brokers_of(a_member("c2")) == (FIRST,)
    members.drop_broker(FIRST)
    assert members.brokers_of(a_member("c1")) == (SECOND,)
    assert members.brokers_of(a_member("c2")) == ()
    assert members.brokers_of(a_member("c1", "nobody")) == ()


@pytest.mark.parametrize(
    ("kind", "may_lock"),
    [
        ({}, True),
        ({"model": "BROADCASTING"}, False),
        ({"kind": "CONSUME_ACTIVELY"}, False),
        ({"kind": "CONSUME_POP"}, False),
    ],
    ids=["push", "broadcasting", "pull", "pop"],
)
def test_only_push_consumers_that_share_their_queues_may_lock(kind, may_lock):
    members = members_at({FIRST: ["c1"]}, **kind)
    assert members.may_lock(GROUP) is may_lock
    assert list(members.lockable_groups()) == ([GROUP] if may_lock else [])


def test_unknown_group_may_not_lock():
    members = members_at({})
    members.record(FIRST, GROUP, None, 0)
    members.record(FIRST, "empty", connections(), 0)
    assert (members.may_lock(GROUP), members.may_lock("empty"), members.clients_of(GROUP)) == (False, False, ())


def test_member_is_gone_once_its_broker_has_not_listed_it_for_35_s():
    members = members_at({FIRST: ["c1"]})
    members.record(FIRST, GROUP, None, 1000)
    assert members.lost(LOST_MS) == ()
    members.record(FIRST, GROUP, connections("c2"), LOST_MS)
    assert members.lost(LOST_MS) == (a_member("c1"),)
    members.forget(members.lost(LOST_MS))
    assert (members.clients_of(GROUP), members.lost(LOST_MS)) == (("c2",), ())


def test_member_that_another_broker_lists_is_not_gone():
    members = members_at({FIRST: ["c1"], SECOND: ["c1"]})
    members.record(FIRST, GROUP, None, LOST_MS)
    assert members.lost(LOST_MS) == ()
    members.record(SECOND, GROUP, None, LOST_MS)
    assert members.lost(LOST_MS) == (a_member("c1"),)


def test_broker_that_has_failed_does_not_prove_that_a_member_is_gone():
    members = members_at({FIRST: ["c1"]})
    members.drop_broker(FIRST)
    members.record(SECOND, GROUP, connections("c2"), LOST_MS)
    assert members.lost(10 * LOST_MS) == ()


def test_member_that_nobody_has_listed_for_150_s_is_not_waited_for_whatever_its_brokers_answer():
    members = members_at({FIRST: ["c1", "c2"]})
    members.drop_broker(FIRST)
    members.record(SECOND, GROUP, connections("c2"), UNLISTED_MS)
    assert members.unlisted(UNLISTED_MS - 1) == ()
    assert members.unlisted(UNLISTED_MS) == (a_member("c1"),)


def test_member_is_gone_by_itself_or_if_it_is_unknown():
    members = members_at({FIRST: ["c1"]})
    members.record(FIRST, GROUP, connections("c2"), LOST_MS)
    assert members.is_lost(a_member("c1"), LOST_MS)
    assert not members.is_lost(a_member("c1"), LOST_MS - 1)
    assert not members.is_lost(a_member("c2"), LOST_MS)
    assert members.is_lost(a_member("c9"), 0)
    assert members.is_lost(a_member("c1", "nobody"), 0)


def test_list_that_was_requested_soon_after_a_member_was_seen_does_not_prove_that_it_is_gone():
    members = members_at({FIRST: ["c1"]})
    members.record(FIRST, GROUP, None, LOST_MS - 1)
    assert members.lost(10 * LOST_MS) == ()


def test_member_that_is_listed_again_is_a_member_again():
    members = members_at({FIRST: ["c1"]})
    members.forget([a_member("c1"), a_member("c9"), a_member("c1", "nobody")])
    assert list(members.lockable_groups()) == []
    members.record(FIRST, GROUP, connections("c1"), 1)
    assert members.brokers_of(a_member("c1")) == (FIRST,)


def test_members_beyond_the_limits_are_left_out_and_counted(monkeypatch):
    many = members_at({FIRST: [f"c{number:05}" for number in range(CLIENTS_PER_LIST_MAX + 1)]})
    assert len(many.clients_of(GROUP)) == CLIENTS_PER_LIST_MAX
    monkeypatch.setattr(group_members, "MEMBERS_MAX", 2)
    members = members_at({FIRST: ["c1", "c2", "c3"], SECOND: ["c1", "c2"]})
    assert (len(members.clients_of(GROUP)), members.left_out) == (2, 1)
    members.forget([a_member(each) for each in members.clients_of(GROUP)])
    members.record(FIRST, GROUP, connections("c4"), 1)
    assert members.clients_of(GROUP) == ("c4",)


def test_client_with_an_absurd_id_is_no_member():
    members = members_at({FIRST: ["c1", "x" * 256, ""]})
    assert members.clients_of(GROUP) == ("c1",)
    assert members.left_out == 2


def test_members_of_other_groups_are_found_to_be_forgotten():
    members = members_at({FIRST: ["c1"]})
    members.record(FIRST, "withdrawn", connections("c2"), 0)
    assert len(members) == 2
    members.forget(members.outside({GROUP}))
    assert (len(members), members.clients_of("withdrawn"), members.clients_of(GROUP)) == (1, (), ("c1",))
