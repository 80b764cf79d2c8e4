"""The answers of a controller that are not a success: the code, and what was sent beside what is current."""

from remoting.codes import ResponseCode
from remoting.errors import RequestRefused


class BrokerIdInvalid(RequestRefused):
    """An id that cannot be applied."""

    code = ResponseCode.CONTROLLER_BROKER_ID_INVALID

    def __init__(self, broker_name: str, *, applied: int, next_broker_id: int) -> None:
        self.broker_name = broker_name
        super().__init__(f"{broker_name}: id {applied} is not free, the next is {next_broker_id}")


class ClusterDiffers(RequestRefused):
    """The name of a set is taken in another cluster."""

    code = ResponseCode.CONTROLLER_BROKER_ID_INVALID

    def __init__(self, broker_name: str, *, sent: str, stored: str) -> None:
        self.broker_name = broker_name
        super().__init__(f"{broker_name} is a set of the cluster {stored}, the request says {sent}")


class BrokerUnknown(RequestRefused):
    """A broker that has no id here."""

    code = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED

    def __init__(self, broker_name: str, broker_id: int) -> None:
        self.broker_name, self.broker_id = broker_name, broker_id
        super().__init__(f"{broker_name} has no broker {broker_id}; it has to apply an id first")


class SyncStateSetRefused(RequestRefused):
    """A SyncStateSet that cannot be: nothing to change, or without its master."""

    code = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED


class NotTheMaster(RequestRefused):
    """Somebody else than the master reports the SyncStateSet."""

    code = ResponseCode.CONTROLLER_INVALID_MASTER

    def __init__(self, broker_name: str, *, sent: int, current: int | None) -> None:
        super().__init__(f"{broker_name}: the master is {'none' if current is None else current}, not {sent}")


class StaleMasterEpoch(RequestRefused):
    """A master of another epoch than the present one reports."""

    code = ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH

    def __init__(self, broker_name: str, *, sent: int, current: int) -> None:
        super().__init__(f"{broker_name} is at master epoch {current}, the request says {sent}")


class StaleSyncStateSetEpoch(RequestRefused):
    """A SyncStateSet that was made from another than the present one."""

    code = ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH

    def __init__(self, broker_name: str, *, sent: int, current: int) -> None:
        super().__init__(f"{broker_name} is at SyncStateSet epoch {current}, the request says {sent}")


class ReplicasInvalid(RequestRefused):
    """A SyncStateSet with strangers."""

    code = ResponseCode.CONTROLLER_INVALID_REPLICAS

    def __init__(self, broker_name: str, strangers: list[int]) -> None:
        super().__init__(f"{broker_name} has no brokers {strangers}")


class ReplicasNotAlive(RequestRefused):
    """A SyncStateSet with brokers that were not heard."""

    code = ResponseCode.CONTROLLER_BROKER_NOT_ALIVE

    def __init__(self, broker_name: str, silent: list[int]) -> None:
        super().__init__(f"{broker_name}: the brokers {silent} are not alive by their heartbeats")


class CleaningRefused(RequestRefused):
    """Brokers that must not be taken out of a set."""

    code = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
