"""How much of its log each broker of a set is known to have had, as it is stored with the set.

A log is lost with its disk, put back with a snapshot, or loses its end with the power, and its broker comes back as a
member of the SyncStateSet all the same. What was known of it before is the proof that it lacks something.
"""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from controller.failure_detection.heartbeats import UNKNOWN, LastHeartbeat
from controller.sets.broker_set import BrokerSet, EpochWritten, LogEndsKnown


def known_log_ends(
    broker_set: BrokerSet, last: Mapping[int, LastHeartbeat], joined: Collection[int] = ()
) -> tuple[EpochWritten | LogEndsKnown, ...]:
    """Return what brokers are known to have by what they reported last, if that is news.

    What was known stays until an election, or until the master takes the broker into the SyncStateSet anew, as `joined`
    have been: it has all that is confirmed then, and whatever it had else was not acknowledged. Members of the
    SyncStateSet have all that the master has confirmed, and nobody has more than the master. No log has an epoch that
    nobody was elected for: such a report is somebody else's.
    """
    believed = {i: each for i, each in last.items() if each.epoch <= broker_set.master_epoch}
    written = _written(broker_set, believed)
    if written is not None:
        return written, *known_log_ends(broker_set.apply(written), last, joined)
    found = {}
    master = _led(broker_set, believed)
    for broker_id, replica in broker_set.replicas.items():
        reported = believed.get(broker_id)
        length = 0 if reported is None else broker_set.length_of(reported.epoch, reported.max_offset)
        if broker_id == broker_set.master and master is not None:
            known = master.max_offset
        else:
            known = max(length, 0 if broker_id in joined else replica.log_end)
            if master is not None:
                in_sync = broker_id in joined or broker_id in broker_set.sync_state_set
                known = min(max(known, master.confirm_offset if in_sync else 0), master.max_offset)
        if known != replica.log_end:
            found[broker_id] = known
    return (LogEndsKnown(found),) if found else ()


def known_at_election(
    broker_set: BrokerSet, last: Mapping[int, LastHeartbeat], broker_id: int, elected: LastHeartbeat
) -> tuple[EpochWritten | LogEndsKnown, ...]:
    """Return what brokers are known to have just before an election: what the elected has copied its master has."""
    master, former = broker_set.master, _of_master(broker_set, last)
    has_copied = former is not None and former.epoch == elected.epoch and broker_id in broker_set.sync_state_set
    if master is not None and former is not None and has_copied:
        end = max(former.max_offset, elected.max_offset)
        last = {**last, master: replace(former, max_offset=end)}
    return known_log_ends(broker_set, last)


def _of_master(broker_set: BrokerSet, last: Mapping[int, LastHeartbeat]) -> LastHeartbeat | None:
    return last.get(broker_set.master) if broker_set.master is not None else None


def _written(broker_set: BrokerSet, last: Mapping[int, LastHeartbeat]) -> EpochWritten | None:
    """Return that the master writes under another epoch than the one that is thought to have begun.

    A broker begins no epoch where the one before it has no messages (docs/protocol/controller.md 4.6), and where that
    one begins is not always known here. Its last heartbeat before its election may say the same; the next one, with
    the epoch that it has begun, takes that back.
    """
    start = broker_set.epoch_start
    reported = _of_master(broker_set, last)
    if reported is None or not start.epoch or reported.epoch in (start.epoch, UNKNOWN):
        return None
    has_grown = reported.max_offset > start.offset
    return EpochWritten(reported.epoch) if has_grown or reported.epoch > start.epoch else None


def _led(broker_set: BrokerSet, last: Mapping[int, LastHeartbeat]) -> LastHeartbeat | None:
    """Return the last report of the master, if it has begun to lead by then: its log is the one that counts."""
    reported = _of_master(broker_set, last)
    if reported is None or reported.max_offset == UNKNOWN or reported.epoch < broker_set.epoch_start.epoch:
        return None
    return reported
