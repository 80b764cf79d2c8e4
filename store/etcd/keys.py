"""Where things stand in etcd, and how they are written there; pure. The layout is docs/protocol/controller.md 5.2."""

from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote

import msgspec

from controller.sets.stored_set import NewerFormat, StoredSet, decode_stored_set
from store.documents import DocumentKind, VersionedDocument, fault_of_value
from store.etcd.lease_state_machine import Holder
from store.store import ControllerMember, StoreError, VersionedEntry

_encode: Final = msgspec.json.Encoder().encode

T = TypeVar("T")


class _LeaderValue(msgspec.Struct, frozen=True):
    id: str
    addr: str
    run: str


class _MemberValue(msgspec.Struct, frozen=True):
    addr: str


class Keys:
    """The keys of one group of controllers, or of what else elects its leader as they do, below a root of its own."""

    def __init__(self, group: str, root: str = "rmq-controller") -> None:
        self.prefix: Final = f"/{root}/{quote(group, safe='')}/".encode()
        self.leader: Final = self.prefix + b"leader"
        self.members: Final = self.prefix + b"members/"
        self.sets: Final = self.prefix + b"sets/"
        #: They come before all other keys: nobody watches them, and they may be large.
        self.documents: Final = self.prefix + b"documents/"
        #: From which key on, and up to which one, all keys are that controllers watch.
        self.watched: Final = (after_prefix(self.documents), after_prefix(self.prefix))

    def member(self, member_id: str) -> bytes:
        return self.members + quote(member_id, safe="").encode()

    def broker_set(self, broker_name: str) -> bytes:
        return self.sets + quote(broker_name, safe="").encode()

    def documents_of(self, kind: DocumentKind) -> bytes:
        return self.documents + kind.encode() + b"/"

    def document(self, kind: DocumentKind, name: str) -> bytes:
        return self.documents_of(kind) + quote(name, safe="").encode()

    def document_name(self, kind: DocumentKind, key: bytes) -> str:
        """Return which document of a kind that is; raises StoreError."""
        return _name(key, self.documents_of(kind))

    def broker_name(self, key: bytes) -> str:
        return _name(key, self.sets)

    def member_id(self, key: bytes) -> str:
        return _name(key, self.members)


def below(prefix: bytes) -> tuple[bytes, bytes]:
    """Return the first key that may begin with a prefix, which ends in a slash, and the first after all that do."""
    return prefix, after_prefix(prefix)


def after_prefix(prefix: bytes) -> bytes:
    """Return the first key that no longer begins with a prefix, which ends in a slash."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def leader_value(member: ControllerMember, run: str) -> bytes:
    return _encode(_LeaderValue(member.id, member.address, run))


def holder_of(kv: Any) -> Holder:
    """Return who wrote the key; raises StoreError."""
    value = _read(kv, _LeaderValue)
    return Holder(
        member=ControllerMember(id=value.id, address=value.addr),
        run=value.run,
        token=kv.create_revision,
        lease_id=kv.lease,
    )


def member_value(member: ControllerMember) -> bytes:
    return _encode(_MemberValue(member.address))


def address_of(kv: Any) -> str:
    """Return where the controller of a key is; raises StoreError."""
    return _read(kv, _MemberValue).addr


def entry_value(entry: StoredSet) -> bytes:
    return _encode(entry)


def versioned_entry_of(kv: Any) -> VersionedEntry:
    """Return the entry of a key; raises StoreError."""
    try:
        return VersionedEntry(decode_stored_set(kv.value), kv.mod_revision)
    except NewerFormat as error:
        raise StoreError(f"etcd: the entry at {shown_key(kv.key)} {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(
            f"etcd: the entry at {shown_key(kv.key)} cannot be read: {error}; restore etcd from a "
            "backup, or delete this key and let the brokers of the set register again"
        ) from None


def versioned_document_of(kv: Any) -> VersionedDocument:
    """Return the document of a key, with its problem if it cannot be read."""
    if not (fault := fault_of_value(kv.value)):
        return VersionedDocument(kv.value, kv.mod_revision)
    problem = f"etcd: the document at {shown_key(kv.key)} cannot be read: {fault}; restore this key, or delete it"
    return VersionedDocument(b"", kv.mod_revision, problem)


def shown_key(key: bytes) -> str:
    """Return a key as text for people, whatever it is."""
    return key.decode(errors="backslashreplace")


def _name(key: bytes, prefix: bytes) -> str:
    try:
        return unquote(key.removeprefix(prefix).decode(), errors="strict")
    except UnicodeDecodeError as error:
        raise StoreError(f"etcd: the key {shown_key(key)} is not ours: {error}; delete it") from None


def _read(kv: Any, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(kv.value, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"etcd: what stands at {shown_key(kv.key)} is not ours: {error}") from None
