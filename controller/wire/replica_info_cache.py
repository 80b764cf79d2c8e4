"""Cache of the answers to CONTROLLER_GET_REPLICA_INFO (1004), which every broker sends again and again."""

from controller.sets.broker_set import BrokerSet
from remoting.protocol.codec import encode_fields
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.controller import MasterHeader, SyncStateSet
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import SizeTally


class ReplicaInfoCache:
    """Encoded answers by broker name, each made at the first request after a change of its set."""

    def __init__(self) -> None:
        self._ready: dict[str, PreparedResponse] = {}
        self._tally = SizeTally(())

    def of(self, broker_set: BrokerSet) -> PreparedResponse:
        """Return the answer about a set as it is stored now; valid until `discard` or `clear`."""
        ready = self._ready.get(broker_set.broker_name)
        if ready is None:
            header = MasterHeader(
                master_broker_id=broker_set.master,
                master_address=broker_set.master_address,
                master_epoch=broker_set.master_epoch,
            )
            body = encoded_sync_state_set(broker_set)
            ready = PreparedResponse(body, self._tally, encode_fields(header))
            self._ready[broker_set.broker_name] = ready
        return ready

    def discard(self, broker_name: str) -> None:
        """Discard the answer about a set, which has changed."""
        if (ready := self._ready.pop(broker_name, None)) is not None:
            ready.invalidate()

    def clear(self) -> None:
        """Discard all answers: the sets were loaded anew, or another controller leads."""
        for ready in self._ready.values():
            ready.invalidate()
        self._ready.clear()


def encoded_sync_state_set(broker_set: BrokerSet) -> bytes:
    """Return who is in sync, as bodies have it."""
    members = SyncStateSet(
        sync_state_set=sorted(broker_set.sync_state_set), sync_state_set_epoch=broker_set.sync_state_set_epoch
    )
    return encode(members, Dialect.STANDARD)
