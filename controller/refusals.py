"""The answers of a controller that are not a success: the code, and what was sent beside what is current."""

from collections.abc import Mapping
from typing import ClassVar

from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import RequestRefused


class BrokerIdInvalid(RequestRefused):
    code = ResponseCode.CONTROLLER_BROKER_ID_INVALID

    def __init__(self, broker_name: str, *, applied: int, next_broker_id: int) -> None:
        super().__init__(f"{broker_name}: id {applied} is not free, the next is {next_broker_id}")


class ClusterDiffers(RequestRefused):
    code = ResponseCode.CONTROLLER_BROKER_ID_INVALID

    def __init__(self, broker_name: str, *, sent: str, stored: str) -> None:
        super().__init__(f"{broker_name} is a set of the cluster {stored}, the request says {sent}")


class NotLeader(RequestRefused):
    """Another controller leads, or none does; brokers find the leader themselves."""

    code = ResponseCode.CONTROLLER_NOT_LEADER

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"the leader is {leader}" if leader else "no controller leads at present")


class NotStoredNow(RequestRefused):
    """The store cannot be reached, or does not answer; the broker tries again by itself."""

    is_logged = True

    def __init__(self, broker_name: str, cause: str) -> None:
        super().__init__(f"nothing was changed, or the outcome is unknown: {cause}; try again ({broker_name})")


class RequestInvalid(RequestRefused):
    """A field that must be there is missing, or cannot be."""

    code = ResponseCode.CONTROLLER_INVALID_REQUEST


class SetUnknown(RequestRefused):
    """A set that has no broker here, or not in the cluster of the request."""

    code = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED

    def __init__(self, broker_name: str, *, sent: str = "", stored: str = "") -> None:
        super().__init__(
            f"{broker_name} is a set of the cluster {stored}, the request says {sent}"
            if stored
            else f"there is no set {broker_name}; its brokers must apply for ids first"
        )


class MetadataUnknown(RequestRefused):
    code = ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST

    def __init__(self, broker_name: str) -> None:
        super().__init__(f"there is no set {broker_name}")


class NobodyElectable(RequestRefused):
    """An election without a new master; the remark says why."""

    code = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED


class MasterNotAvailable(RequestRefused):
    """As NobodyElectable, where no broker was named."""

    code = ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE


class LimitReached(RequestRefused):
    code = ResponseCode.CONTROLLER_INVALID_REQUEST


class EpochsUsedUp(RequestRefused):
    """A set has no master epoch left that brokers can read, or one that is adopted leaves too few."""

    code = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED

    def __init__(self, broker_name: str, master_epoch: int) -> None:
        super().__init__(
            f"{broker_name} is at master epoch {master_epoch}, too near the highest that brokers can read: "
            "start the set again under another name"
        )


class BrokerUnknown(RequestRefused):
    code = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED

    def __init__(self, broker_name: str, broker_id: int) -> None:
        super().__init__(f"{broker_name} has no broker {broker_id}; it must apply for an id first")


class BrokerIdInUse(RequestRefused):
    """A broker that registers under an id whose heartbeats come from another address."""

    code = ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED

    def __init__(self, broker_name: str, broker_id: int, address: str) -> None:
        super().__init__(
            f"{broker_name}: another broker with the id {broker_id} is alive at {address}; delete the brokerIdentity "
            "of the one that was copied, or whose set had expired, so that it gets its own id"
        )


class SyncStateSetRefused(RequestRefused):
    """A SyncStateSet that cannot be: nothing to change, or without its master."""

    code = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    #: What every refused change of the SyncStateSet carries, as with Java.
    ext_fields: ClassVar[Mapping[str, str] | None] = {"newSyncStateSetEpoch": "0"}


class NotTheMaster(SyncStateSetRefused):
    code = ResponseCode.CONTROLLER_INVALID_MASTER

    def __init__(self, broker_name: str, *, sent: int, current: int | None) -> None:
        super().__init__(f"{broker_name}: the master is {'none' if current is None else current}, not {sent}")


class NotFromTheMaster(SyncStateSetRefused):
    """The SyncStateSet in the name of a master, from another host than the master's."""

    code = ResponseCode.CONTROLLER_INVALID_MASTER

    def __init__(self, broker_name: str, master: int) -> None:
        super().__init__(
            f"{broker_name}: broker {master} sends from its own host, or did until it failed, and this request comes "
            "from another one"
        )


class StaleMasterEpoch(SyncStateSetRefused):
    code = ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH

    def __init__(self, broker_name: str, *, sent: int, current: int) -> None:
        super().__init__(f"{broker_name} is at master epoch {current}, the request says {sent}")


class StaleSyncStateSetEpoch(SyncStateSetRefused):
    code = ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH

    def __init__(self, broker_name: str, *, sent: int, current: int) -> None:
        super().__init__(f"{broker_name} is at SyncStateSet epoch {current}, the request says {sent}")


class ReplicasInvalid(SyncStateSetRefused):
    code = ResponseCode.CONTROLLER_INVALID_REPLICAS

    def __init__(self, broker_name: str, non_members: list[int], *, current: list[int]) -> None:
        super().__init__(f"{broker_name} has no brokers {non_members}; it has {current}")


class ReplicasNotAlive(SyncStateSetRefused):
    code = ResponseCode.CONTROLLER_BROKER_NOT_ALIVE

    def __init__(self, broker_name: str, silent: list[int]) -> None:
        super().__init__(f"{broker_name}: the brokers {silent} are not alive by their heartbeats")


class CleaningRefused(RequestRefused):
    """Brokers that must not be taken out of a set."""

    code = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
