"""What a controller answers about masters (`GET /v1/masters`), decoded and checked. Pure.

Fields that a later release adds are ignored. An answer with anything that cannot be is refused as a whole: what was
known before stays known.
"""

from collections import Counter
from typing import Annotated, Final

import msgspec

from controller.offsets.topology.values import SETS_MAX, FollowedSet, SetMaster, SetMember
from controller.offsets.values import NAME_CHARACTERS_MAX
from remoting.protocol.addresses import is_address

#: The longest answer that is read, in bytes: some 330 for a set of three.
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
#: Brokers of one set; real ones have fewer than ten.
MEMBERS_MAX: Final = 1_000
_REVISION_CHARACTERS_MAX: Final = 100
#: Brokers read an epoch as a Java int, and a broker id as a Java long.
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=SETS_MAX)]
_Int = Annotated[int, msgspec.Meta(ge=0, le=_INT_MAX)]
_Long = Annotated[int, msgspec.Meta(ge=0, le=_LONG_MAX)]


class AnswerUnreadable(ValueError):
    """It is no answer about masters; the text says why."""


class _Member(msgspec.Struct, frozen=True, rename="camel"):
    broker_id: _Long
    address: str
    in_sync: bool


class _Set(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    broker_name: _Name
    cluster: _Name
    master_broker_id: _Long | None
    master_address: str | None
    master_epoch: _Int
    elected_unix_ms: _Long | None = None
    elected_unclean: bool | None = None
    sync_state_set_epoch: _Int
    members: Annotated[list[_Member], msgspec.Meta(max_length=MEMBERS_MAX)]


class _MastersBody(msgspec.Struct, frozen=True, rename="camel"):
    controller_group: _Name
    revision: Annotated[str, msgspec.Meta(min_length=1, max_length=_REVISION_CHARACTERS_MAX)]
    complete: bool
    broker_sets: Annotated[list[_Set], msgspec.Meta(max_length=SETS_MAX)]
    removed: _Names
    unreadable: _Names


class MastersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The sets of one answer."""

    #: Whose sets they are; the controllers of one store have one name.
    controller_group: str
    #: For the next request to the same controller.
    revision: str
    #: These are all sets: others are gone.
    complete: bool
    sets: tuple[FollowedSet, ...]
    removed: tuple[str, ...] = ()
    #: The controller cannot read what is stored of them: nothing is known to have changed.
    unreadable: tuple[str, ...] = ()


_decode: Final = msgspec.json.Decoder(_MastersBody).decode


def decode_answer(text: bytes) -> MastersAnswer:
    """Return an answer; raises AnswerUnreadable."""
    try:
        answer = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerUnreadable(f"{error}") from None
    counts = Counter(each.broker_name for each in answer.broker_sets)
    counts.update(answer.removed)
    counts.update(answer.unreadable)
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise AnswerUnreadable(f"{twice} is in it more than once")
    return MastersAnswer(
        controller_group=answer.controller_group,
        revision=answer.revision,
        complete=answer.complete,
        sets=tuple(map(_set, answer.broker_sets)),
        removed=tuple(answer.removed),
        unreadable=tuple(answer.unreadable),
    )


def _set(found: _Set) -> FollowedSet:
    return FollowedSet(
        cluster=found.cluster,
        broker_name=found.broker_name,
        master=_master(found),
        master_epoch=found.master_epoch,
        sync_state_set_epoch=found.sync_state_set_epoch,
        elected_unix_ms=found.elected_unix_ms,
        members=tuple(sorted(SetMember(each.broker_id, each.address, each.in_sync) for each in found.members)),
        unclean_epoch=found.master_epoch if found.elected_unclean else None,
    )


def _master(found: _Set) -> SetMaster | None:
    if found.master_broker_id is None:
        return None
    if found.master_address is None or not is_address(found.master_address):
        raise AnswerUnreadable(f"the master of {found.broker_name} has no address host:port")
    return SetMaster(
        cluster=found.cluster,
        broker_name=found.broker_name,
        broker_id=found.master_broker_id,
        address=found.master_address,
        master_epoch=found.master_epoch,
    )
