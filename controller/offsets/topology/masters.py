"""The masters of all sets by the answers of controllers: answers come in, changes come out. Pure.

The master epoch is a fence: what has a lower one than is known of a set is out of date and never wins, whoever answers
it. A set that the controller contradicts is nobody's master until an answer agrees: one of the two is wrong, and which
one is not known. The epoch of a set that is removed stays a fence for hours: a controller begins such a set again above
it, and only one whose store was put back or emptied does not.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from controller.offsets.topology.answers import MastersAnswer
from controller.offsets.topology.values import (
    SETS_MAX,
    FollowedSet,
    MasterChange,
    MasterChangeKind,
    SetMaster,
    change_of,
)

#: How long the epoch of a set that was removed is remembered, ms.
REMOVED_EPOCH_MS: Final = 6 * 3_600_000


class OutdatedSet(NamedTuple):
    """What was answered of a set, and is out of date."""

    broker_name: str
    known_epoch: int
    answered_epoch: int


class TakenAnswer(NamedTuple):
    """What an answer has changed."""

    changes: tuple[MasterChange, ...]
    #: Nothing was taken of these.
    outdated: tuple[OutdatedSet, ...] = ()


class Masters:
    """All sets, as the last answers have them."""

    def __init__(self) -> None:
        self._sets: dict[str, FollowedSet] = {}
        #: The last master of each set, also of those that have none now.
        self._last: dict[str, SetMaster] = {}
        #: Sets of which the last answer was out of date.
        self._contradicted: set[str] = set()
        self._removed_epochs = _RemovedEpochs()

    @property
    def sets(self) -> Mapping[str, FollowedSet]:
        """All sets by broker name."""
        return self._sets

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set, in the same epoch and at the same address.

        False as long as the last answer about the set was out of date.
        """
        known = self._sets.get(master.broker_name)
        return known is not None and known.master == master and master.broker_name not in self._contradicted

    def take(self, answer: MastersAnswer, *, now_ms: int, unix_ms: int) -> TakenAnswer:
        """Take the sets of an answer that came then; those that a complete answer does not have are removed."""
        changes, outdated = list(self._removed(answer, now_ms, unix_ms)), []
        for each in answer.sets:
            known = self._sets.get(each.broker_name)
            if (stale := self._outdated(known, each, now_ms)) is not None:
                outdated.append(stale)
                if known is not None:
                    self._contradicted.add(each.broker_name)
                continue
            self._contradicted.discard(each.broker_name)
            change = change_of(known, self._last.get(each.broker_name), each, unix_ms)
            self._keep(known, each)
            if change is not None:
                changes.append(change)
        return TakenAnswer(tuple(changes), tuple(outdated))

    def _outdated(self, known: FollowedSet | None, now: FollowedSet, now_ms: int) -> OutdatedSet | None:
        if known is not None:
            return _outdated(known, now)
        removed_epoch, epoch = self._removed_epochs.of(now.broker_name, now_ms), now.master_epoch or 0
        return OutdatedSet(now.broker_name, removed_epoch, epoch) if epoch < removed_epoch else None

    def _removed(self, answer: MastersAnswer, now_ms: int, unix_ms: int) -> Iterator[MasterChange]:
        for name in self._names_removed(answer):
            self._removed_epochs.add(name, self._sets.pop(name).master_epoch or 0, now_ms)
            self._contradicted.discard(name)
            yield MasterChange(MasterChangeKind.REMOVED, name, self._last.pop(name, None), None, unix_ms)

    def _names_removed(self, answer: MastersAnswer) -> Iterable[str]:
        if not answer.complete:
            return [name for name in answer.removed if name in self._sets]
        shown = {*(each.broker_name for each in answer.sets), *answer.unreadable}
        return [name for name in self._sets if name not in shown]

    def _keep(self, known: FollowedSet | None, now: FollowedSet) -> None:
        if known is not None and _is_older_sync_state_set(known, now):
            members, epoch = known.members, known.sync_state_set_epoch
            now = now._replace(members=members, sync_state_set_epoch=epoch)
        if known is not None and now.elected_unix_ms is None and now.master == known.master:
            # Another controller leads now, which does not know that election.
            now = now._replace(elected_unix_ms=known.elected_unix_ms)
        if known is not None and now.unclean_epoch is None:
            now = now._replace(unclean_epoch=known.unclean_epoch)
        self._sets[now.broker_name] = now
        if now.master is not None:
            self._last[now.broker_name] = now.master


class _RemovedEpochs:
    """The epochs of sets that were removed, for a time."""

    def __init__(self) -> None:
        #: Epoch and when the set was removed, by broker name; the earliest first.
        self._epochs: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def add(self, broker_name: str, epoch: int, now_ms: int) -> None:
        """Remember the epoch of a set that is removed now; of too many the earliest are forgotten."""
        self._epochs.pop(broker_name, None)
        self._epochs[broker_name] = epoch, now_ms
        if len(self._epochs) > SETS_MAX:
            self._epochs.popitem(last=False)

    def of(self, broker_name: str, now_ms: int) -> int:
        """Return the epoch that a set had; 0 for one that was not removed within REMOVED_EPOCH_MS."""
        epoch, removed_ms = self._epochs.get(broker_name, (0, now_ms))
        return epoch if now_ms - removed_ms < REMOVED_EPOCH_MS else 0


def _outdated(known: FollowedSet, now: FollowedSet) -> OutdatedSet | None:
    """Return why nothing is taken of a set.

    An epoch has one master: another one in the same epoch comes from a store that was put back, and is not followed.
    """
    known_epoch, epoch = known.master_epoch or 0, now.master_epoch or 0
    is_stale = epoch < known_epoch or (epoch == known_epoch and _are_two_masters(known.master, now.master))
    return OutdatedSet(now.broker_name, known_epoch, epoch) if is_stale else None


def _are_two_masters(one: SetMaster | None, other: SetMaster | None) -> bool:
    return one is not None and other is not None and one.broker_id != other.broker_id


def _is_older_sync_state_set(known: FollowedSet, now: FollowedSet) -> bool:
    same_epoch = known.master_epoch == now.master_epoch
    return same_epoch and (now.sync_state_set_epoch or 0) < (known.sync_state_set_epoch or 0)
