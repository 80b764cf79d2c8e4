"""What brokers of a set have sent, and whether that proves that the store knows less than they do.

Source: docs/protocol/controller.md 6.3.

A store that was lost, or restored from an old backup, is behind the logs of its brokers. But a single broker that
claims a higher master epoch proves nothing: it may belong to another set, or not be a broker at all.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller.failure_detection.heartbeats import LastHeartbeat
from controller.failure_detection.log_ends import NO_LOG_ENDS, LogEnds
from controller.sets.broker_set import RAISED_EPOCH_MAX, RECOVERY_MARGIN, BrokerSet

#: A claim that is further above the stored master epoch needs an operator: ten lost stores lie between.
CLAIM_ABOVE_STORED_MAX: Final = 10 * RECOVERY_MARGIN
#: The same for brokers out of sync, and only to elect others above it: claims must not use up the epochs of a set.
OUTSIDER_CLAIM_ABOVE_STORED_MAX: Final = 1_000


class ClusterView(Struct, frozen=True, kw_only=True):
    """What this controller knows of the brokers of a set."""

    #: The living that are not suspect, by broker id.
    trusted: Mapping[int, LastHeartbeat] = {}
    #: All brokers that were in contact lately, non-members too. Anybody can send the heartbeats of a member.
    heartbeats: Mapping[int, LastHeartbeat] = {}
    #: What each member reported last, be it failed, or another process by now.
    last: Mapping[int, LastHeartbeat] = {}
    #: Brokers that are not certainly lost, although they may have made no contact.
    may_live: Collection[int] = ()
    #: Brokers that were judged to have failed. All members may live all the same if no broker is in contact: this
    #: controller may be cut off.
    failed: Collection[int] = ()
    #: The master epochs that members report to lead at and that the store does not know, whatever is in their logs.
    reported: Mapping[int, int] = {}
    #: The highest master epoch that this controller has seen stored, be it in a store that was put back since.
    epoch_seen: int = 0
    #: What the trusted have answered for this election, at the addresses that are stored.
    log_ends: LogEnds = NO_LOG_ENDS

    def answered(self, log_ends: LogEnds, now_ms: int) -> "ClusterView":
        """Return this with answers in the place of heartbeats and reports, which may be somebody else's."""
        trusted, heartbeats = (log_ends.applied_to(each, now_ms) for each in (self.trusted, self.heartbeats))
        ends = log_ends.by_id
        reported = {i: epoch for i, epoch in self.reported.items() if i not in ends or ends[i].epoch >= epoch}
        return replace(self, trusted=trusted, heartbeats=heartbeats, reported=reported, log_ends=log_ends)

    def claims(self, broker_set: BrokerSet) -> dict[int, int]:
        """Return the members that claim to know more than the store, and the master epoch of each."""
        known = _known_epoch(broker_set)
        claims = {
            i: each.epoch for i, each in self.heartbeats.items() if i in broker_set.replicas and each.epoch > known
        }
        reported = {i: epoch for i, epoch in self.reported.items() if i in broker_set.replicas}
        return claims | {i: max(epoch, claims.get(i, epoch)) for i, epoch in reported.items()}

    def is_ahead_of(self, broker_set: BrokerSet) -> bool:
        """Return whether the store is proven to know less than the logs: it was lost, or is an old backup.

        Of a set that had a master somebody in sync has to claim a higher epoch, and the master must not report the
        stored one. In a set that never had a master any messages prove it.
        """
        if not broker_set.is_elected:
            return any(i in broker_set.replicas and each.has_messages for i, each in self.heartbeats.items())
        claims = self.claims(broker_set)
        if broker_set.master in self.heartbeats and broker_set.master not in claims:
            return False
        return any(_proves(broker_set, i, epoch) for i, epoch in claims.items())

    def disputes(self, broker_set: BrokerSet) -> dict[int, int]:
        """Return the claims that prove nothing, of a set that had a master: an operator has to look at them."""
        is_settled = not broker_set.is_elected or broker_set.is_rebuilding or self.is_ahead_of(broker_set)
        return {} if is_settled else self.claims(broker_set)

    def lacks_answers(self, broker_set: BrokerSet, lost_ms: int) -> bool:
        """Return whether a message may have been confirmed by replicas alone that have not answered.

        Where brokers confirm what is on a fixed number of replicas, in sync or not, any of them may hold the last
        messages with the lost master. What is on k of n replicas is on one of any n - k + 1. One that starts counts if
        it has tried again since the master was lost: before, it may have found that one, and followed it.
        """
        confirmed_on = self.log_ends.confirmed_on
        if confirmed_on is None or not self.log_ends.is_on_fixed_number:
            return False
        starting = {i for i in self._starting if self.trusted[i].last_heartbeat_ms >= lost_ms}
        return (
            len((self.log_ends.by_id.keys() | starting) & broker_set.replicas.keys())
            < len(broker_set.replicas) - confirmed_on + 1
        )

    @property
    def known_log_ends(self) -> AbstractSet[int]:
        """Whose log ends where it is known to: who has answered, or starts and has beaten: nothing is added to its log.

        One that starts answers nothing before it has a role.
        """
        return self.log_ends.by_id.keys() | self._starting

    @property
    def _starting(self) -> AbstractSet[int]:
        return {i for i, each in self.trusted.items() if each.is_starting and not each.awaits_heartbeat}

    def has_non_member_logs(self, broker_set: BrokerSet) -> bool:
        """Return whether a broker that is no member has messages of a set: its identity is older than the store."""
        return any(each.has_messages for i, each in self.heartbeats.items() if i not in broker_set.replicas)

    def raised_epoch(self, broker_set: BrokerSet, designated: int | None = None) -> int:
        """Return the master epoch above which the next one has to be; brokers ignore what is not above their own.

        Where the store has lost something, brokers without contact yet may know higher epochs than any that is claimed:
        a margin keeps clear of them, as two logs with the same epoch from the same offset count as one.
        """
        claims = self.claims(broker_set)
        believed = {i: epoch for i, epoch in claims.items() if _is_believed(broker_set, i, epoch, designated)}
        highest = max(believed.values(), default=0)
        has_lost = not broker_set.is_elected or any(_proves(broker_set, i, epoch) for i, epoch in believed.items())
        margin = RECOVERY_MARGIN if believed and has_lost else 0
        return max(min(highest + margin, RAISED_EPOCH_MAX), self.epoch_seen)


def _known_epoch(broker_set: BrokerSet) -> int:
    return broker_set.master_epoch if broker_set.is_elected else 0


def _proves(broker_set: BrokerSet, broker_id: int, epoch: int) -> bool:
    """Return whether a claim proves that the store of a set that had a master has lost something."""
    believed_max = min(broker_set.master_epoch + CLAIM_ABOVE_STORED_MAX, RAISED_EPOCH_MAX - RECOVERY_MARGIN)
    return broker_id in broker_set.sync_state_set and epoch <= believed_max


def _is_believed(broker_set: BrokerSet, broker_id: int, epoch: int, designated: int | None) -> bool:
    """Return whether the next master epoch has to be above a claim."""
    if not broker_set.is_elected or broker_id == designated:
        return True
    above = epoch - broker_set.master_epoch
    return _proves(broker_set, broker_id, epoch) or above <= OUTSIDER_CLAIM_ABOVE_STORED_MAX
