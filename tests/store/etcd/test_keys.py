"""Where things stand in etcd, and what cannot be read there."""

from types import SimpleNamespace

import pytest
from controller_builders import a_set

from controller.sets.stored_set import StoredSet
from store.documents import DocumentKind
from store.etcd.keys import (
    Keys,
    address_of,
    after_prefix,
    entry_value,
    holder_of,
    leader_value,
    member_value,
    versioned_entry_of,
)
from store.etcd.lease_state_machine import Holder
from store.store import ControllerMember, StoreError, VersionedEntry

KEYS = Keys("a/b")
ME = ControllerMember(id="n1", address="h:1")


def a_kv(value, key=KEYS.leader):
    return SimpleNamespace(key=key, value=value, create_revision=7, mod_revision=9, lease=3)


def test_keys_have_the_documented_layout():
    assert KEYS.leader == b"/rmq-controller/a%2Fb/leader"
    assert KEYS.member("n/1") == b"/rmq-controller/a%2Fb/members/n%2F1"
    assert KEYS.broker_set("é/") == b"/rmq-controller/a%2Fb/sets/%C3%A9%2F"
    assert KEYS.broker_name(KEYS.broker_set("é/%")) == "é/%"
    assert KEYS.member_id(KEYS.member("n/1")) == "n/1"
    assert KEYS.sets < KEYS.broker_set("\U0010ffff") < after_prefix(KEYS.sets)


@pytest.mark.parametrize("kind", DocumentKind)
def test_documents_come_before_all_keys_that_controllers_watch(kind):
    key = KEYS.document(kind, "é/%")
    assert key == b"/rmq-controller/a%2Fb/documents/" + kind.encode() + b"/%C3%A9%2F%25"
    assert KEYS.document_name(kind, key) == "é/%"
    first, end = KEYS.watched
    assert key < first
    for watched in (KEYS.leader, KEYS.member("\0"), KEYS.broker_set("\U0010ffff")):
        assert first <= watched < end


def test_written_values_are_read_back():
    assert holder_of(a_kv(leader_value(ME, "run"))) == Holder(member=ME, run="run", token=7, lease_id=3)
    assert address_of(a_kv(member_value(ME))) == "h:1"
    entry = StoredSet(broker_set=a_set())
    assert versioned_entry_of(a_kv(entry_value(entry))) == VersionedEntry(entry, 9)


@pytest.mark.parametrize("name", [b"\xff", b"%FF"])
def test_key_that_is_no_name_is_refused(name):
    with pytest.raises(StoreError, match="is not ours"):
        KEYS.broker_name(KEYS.sets + name)
    with pytest.raises(StoreError, match="is not ours"):
        KEYS.member_id(KEYS.members + name)


def test_value_that_is_no_text_is_refused():
    for read in (versioned_entry_of, holder_of, address_of):
        with pytest.raises(StoreError):
            read(a_kv(b'{"id":"\xff","addr":"\xff","run":"\xff","broker_set":"\xff"}'))


def test_error_of_an_unreadable_value_names_its_key():
    with pytest.raises(StoreError, match="at /rmq-controller/a%2Fb/leader is not ours"):
        holder_of(a_kv(b"{}"))
    with pytest.raises(StoreError, match=r"entry at /rmq-controller/a%2Fb/sets/x cannot be read.*backup"):
        versioned_entry_of(a_kv(b"x", KEYS.broker_set("x")))
