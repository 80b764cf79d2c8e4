"""Hands over to the recorder when masters changed, when each new one served, and how long a switchover held a set.

What a new leader repeats is not recorded again: the leader before has seen it, or nobody has.
"""

from controller.recording.set_recorder import SetEvent
from controller.roles.changes import RoleChange
from controller.sets.broker_set import BrokerSet
from history.recorder import Recorder
from history.rows import BrokerRef
from remoting.clock import SystemClock


class RoleRecorder:
    """Listens to changes of masters."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._clock = SystemClock()

    def role_changed(self, change: RoleChange) -> None:
        """Record that a set has another master, or none, or its master another address."""
        if not change.is_repeated:
            # What was stored while the server started is published once it is ready.
            ago_ms = max(0, self._clock.unix_ms() - change.unix_ms)
            self._recorder.enqueue(SetEvent("master_changed", _broker(change), _columns(change), ago_ms))

    def master_serves(self, change: RoleChange, after_ms: int) -> None:
        """Record that the new master was confirmed to serve."""
        if not change.is_repeated:
            columns = {**_columns(change), "duration_ms": after_ms}
            self._recorder.enqueue(SetEvent("master_serves", _broker(change), columns))

    def hold_ended(self, broker_set: BrokerSet, held_ms: int) -> None:
        """Record that a set is not held any more."""
        columns = {"master_epoch": broker_set.master_epoch, "new_master": broker_set.master, "duration_ms": held_ms}
        broker = BrokerRef(broker_set.cluster, broker_set.broker_name, broker_set.master, broker_set.master_address)
        self._recorder.enqueue(SetEvent("hold_ended", broker, columns))


def _broker(change: RoleChange) -> BrokerRef:
    broker_id, address = change.new or (None, None)
    return BrokerRef(change.cluster, change.broker_name, broker_id, address)


def _columns(change: RoleChange) -> dict[str, object]:
    return {
        "failover_id": f"{change.cluster}/{change.broker_name}/{change.master_epoch}",
        "master_epoch": change.master_epoch,
        "old_master": change.old.broker_id if change.old is not None else None,
        "new_master": change.new.broker_id if change.new is not None else None,
        "former_addr": change.old.address if change.old is not None else None,
    }
