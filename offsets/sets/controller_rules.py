"""The masters of all sets by what controllers answer (`GET /v1/masters`): answers come in, changes come out. Pure.

The master epoch is a fence: a set with a lower epoch than is known is out of date and never wins, whichever controller
answers it. A set that the controller contradicts has no master until an answer agrees: one of the two is wrong, and
which one is not known. The epoch of a removed set stays a fence for hours: a controller begins such a set again above
it, and only one whose store was restored or emptied does not.

Fields that a later release adds are ignored. An answer with anything impossible is refused as a whole, and what was
known before stays known.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, NamedTuple

import msgspec

from offsets.sets.followed import (
    SETS_MAX,
    FollowedSet,
    MasterChange,
    MasterChangeKind,
    SetMaster,
    change_of,
)
from offsets.values import SetName
from remoting.protocol.addresses import is_address

#: How long the epoch of a set that was removed is remembered, ms.
REMOVED_EPOCH_MS: Final = 6 * 3_600_000
#: Brokers of one set; real ones have fewer than ten.
MEMBERS_MAX: Final = 1_000

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_Names = Annotated[list[_Name], msgspec.Meta(max_length=SETS_MAX)]
#: Brokers read an epoch as a Java int, and a broker id as a Java long.
_Int = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Long = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class AnswerUnreadable(ValueError):
    """It is no answer about masters; the text says why."""


class _Member(msgspec.Struct, frozen=True, rename="camel"):
    broker_id: _Long
    address: str


class _Set(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    broker_name: _Name
    cluster: _Name
    master_broker_id: _Long | None
    master_address: str | None
    master_epoch: _Int
    elected_unix_ms: _Long | None = None
    sync_state_set_epoch: _Int
    members: Annotated[list[_Member], msgspec.Meta(max_length=MEMBERS_MAX)]

    def followed(self) -> FollowedSet:
        """Return the set; raises AnswerUnreadable for a master that cannot be reached."""
        name, master = SetName(self.cluster, self.broker_name), None
        if self.master_broker_id is not None:
            if self.master_address is None or not is_address(self.master_address):
                raise AnswerUnreadable(f"the master of {self.broker_name} has no address host:port")
            master = SetMaster(name, self.master_broker_id, self.master_address, self.master_epoch)
        return FollowedSet(
            set_name=name,
            master=master,
            members=tuple(address for _, address in sorted((row.broker_id, row.address) for row in self.members)),
            master_epoch=self.master_epoch,
            sync_state_set_epoch=self.sync_state_set_epoch,
            elected_unix_ms=self.elected_unix_ms,
        )


class _Body(msgspec.Struct, frozen=True, rename="camel"):
    controller_group: _Name
    revision: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    complete: bool
    broker_sets: Annotated[list[_Set], msgspec.Meta(max_length=SETS_MAX)]
    removed: _Names
    unreadable: _Names


class MastersAnswer(msgspec.Struct, frozen=True, kw_only=True):
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


_decode: Final = msgspec.json.Decoder(_Body).decode


def decode_answer(text: bytes) -> MastersAnswer:
    """Return an answer; raises AnswerUnreadable."""
    try:
        body = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerUnreadable(str(error)) from None
    counts = Counter([*(found.broker_name for found in body.broker_sets), *body.removed, *body.unreadable])
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise AnswerUnreadable(f"{twice} is in it more than once")
    return MastersAnswer(
        controller_group=body.controller_group,
        revision=body.revision,
        complete=body.complete,
        sets=tuple(found.followed() for found in body.broker_sets),
        removed=tuple(body.removed),
        unreadable=tuple(body.unreadable),
    )


class OutdatedSet(NamedTuple):
    """A set whose answer is out of date: nothing of it was taken."""

    broker_name: str
    known_epoch: int
    answered_epoch: int


class TakenAnswer(NamedTuple):
    """What an answer has changed."""

    changes: tuple[MasterChange, ...]
    outdated: tuple[OutdatedSet, ...] = ()


class ControllerSets:
    def __init__(self) -> None:
        #: By broker name.
        self.sets: dict[str, FollowedSet] = {}
        #: Sets whose last answer was out of date.
        self.contradicted: set[str] = set()
        #: The last master of each set, also of those that have none now.
        self._last: dict[str, SetMaster] = {}
        #: Epoch and time of each removal, monotonic ms; the earliest first.
        self._removed: dict[str, tuple[int, int]] = {}

    def take(self, answer: MastersAnswer, *, now_ms: int, unix_ms: int) -> TakenAnswer:
        """Take the sets of an answer that came then; those that a complete answer does not have are removed."""
        changes, outdated = list(self._remove(answer, now_ms, unix_ms)), []
        for now in answer.sets:
            name = now.set_name.broker_name
            known = self.sets.get(name)
            if (stale := self._outdated(known, now, now_ms)) is not None:
                outdated.append(stale)
                if known is not None:
                    self.contradicted.add(name)
                continue
            self.contradicted.discard(name)
            change = change_of(known, self._last.get(name), now, unix_ms)
            self.sets[name] = now if known is None else _with_known(known, now)
            if now.master is not None:
                self._last[name] = now.master
            if change is not None:
                changes.append(change)
        return TakenAnswer(tuple(changes), tuple(outdated))

    def _outdated(self, known: FollowedSet | None, now: FollowedSet, now_ms: int) -> OutdatedSet | None:
        name, epoch = now.set_name.broker_name, now.master_epoch or 0
        if known is None:
            fence, removed_ms = self._removed.get(name, (0, now_ms))
            is_stale = epoch < fence and now_ms - removed_ms < REMOVED_EPOCH_MS
        else:
            fence = known.master_epoch or 0
            # An epoch has one master: another one in the same epoch comes from a store that was restored.
            masters = {followed.master.broker_id for followed in (known, now) if followed.master is not None}
            is_stale = epoch < fence or (epoch == fence and len(masters) > 1)
        return OutdatedSet(name, fence, epoch) if is_stale else None

    def _remove(self, answer: MastersAnswer, now_ms: int, unix_ms: int) -> Iterator[MasterChange]:
        for name in self._names_removed(answer):
            gone = self.sets.pop(name)
            self.contradicted.discard(name)
            self._removed.pop(name, None)
            self._removed[name] = gone.master_epoch or 0, now_ms
            if len(self._removed) > SETS_MAX:
                del self._removed[next(iter(self._removed))]
            yield MasterChange(MasterChangeKind.REMOVED, gone.set_name, self._last.pop(name, None), None, unix_ms)

    def _names_removed(self, answer: MastersAnswer) -> Iterable[str]:
        if not answer.complete:
            return [name for name in answer.removed if name in self.sets]
        shown = {*(found.set_name.broker_name for found in answer.sets), *answer.unreadable}
        return [name for name in self.sets if name not in shown]


def _with_known(known: FollowedSet, now: FollowedSet) -> FollowedSet:
    """Return a set as it is answered now, with what was known before and is newer."""
    same_epoch = known.master_epoch == now.master_epoch
    if same_epoch and (now.sync_state_set_epoch or 0) < (known.sync_state_set_epoch or 0):
        now = now._replace(members=known.members, sync_state_set_epoch=known.sync_state_set_epoch)
    if now.elected_unix_ms is None and now.master == known.master:
        # Another controller leads now, which does not know that election.
        now = now._replace(elected_unix_ms=known.elected_unix_ms)
    return now
