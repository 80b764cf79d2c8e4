"""Headers and bodies of the controller's requests, in the order of their codes (docs/protocol/controller.md 1).

A field that Java calls required can be missing on the wire; it is None here, and the command decides what that means.
"""

import msgspec
from msgspec import UNSET, UnsetType

from remoting.protocol.shapes.integers import Int32, Int64


class BrokerHeartbeatHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of BROKER_HEARTBEAT (904) to a controller."""

    cluster_name: str | None = None
    broker_addr: str | None = None
    broker_name: str | None = None
    #: The id that a controller gave, also of a master.
    broker_id: Int64 | None = None
    #: The last in the broker's epoch file.
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    #: Ms.
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class AlterSyncStateSetHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of ALTER_SYNC_STATE_SET (1001)."""

    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_epoch: Int32 | None = None


class SyncStateSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of 1001, of its answer, of the answers to 1003 and 1004, and of 1008."""

    sync_state_set: list[Int64]
    sync_state_set_epoch: Int32


class AlterSyncStateSetResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to ALTER_SYNC_STATE_SET (1001)."""

    new_sync_state_set_epoch: Int32


class ElectMasterHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of ELECT_MASTER (1002)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    #: -1 for nobody in particular.
    broker_id: Int64 = -1
    #: An operator wants the broker of this id.
    designate_elect: bool = False


class MasterHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answers to 1002, 1003 and 1004, and header of 1008: who leads; each leaves out what it has not."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class MemberGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All brokers of a set by the ids that the controller gave."""

    broker_addrs: dict[int, str]
    broker_name: str
    cluster: str


class ElectMasterBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to ELECT_MASTER (1002); with the group only if there is a new master.

    mqadmin reads the whole as a bare group (docs/protocol/controller.md 6.15), so the group's fields stand beside it as
    well.
    """

    broker_member_group: MemberGroup | UnsetType = UNSET
    broker_addrs: dict[int, str] | UnsetType = UNSET
    broker_name: str | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    sync_state_set: list[int] | UnsetType = UNSET


class RegisterBrokerToControllerHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of REGISTER_BROKER (1003)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 | None = None
    broker_address: str | None = None


class ReplicaInfoHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_REPLICA_INFO (1004)."""

    broker_name: str | None = None


class MetadataResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to GET_METADATA_INFO (1005)."""

    group: str
    controller_leader_id: str | None
    #: Brokers adopt it at once, so it is left out where nobody leads.
    controller_leader_address: str | None
    is_leader: bool
    #: `id:host:port;` for each member.
    peers: str


class InSyncReplica(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One broker in the answer to 1006."""

    broker_name: str
    broker_id: int
    broker_address: str
    alive: bool


class SyncStateDataHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_SYNC_STATE_DATA (1006); Java has none."""

    #: Ours alone: each set has its cluster and its last election, and no names at all stand for every stored set.
    with_details: bool = False


class ReplicasInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One set in the answer to 1006; mqadmin needs both lists."""

    master_broker_id: int | UnsetType = UNSET
    master_address: str | UnsetType = UNSET
    master_epoch: int
    sync_state_set_epoch: int
    in_sync_replicas: list[InSyncReplica]
    not_in_sync_replicas: list[InSyncReplica]
    #: Only with `with_details`, from ours.
    cluster_name: str | UnsetType = UNSET
    #: How the last election that this controller knows ended, in words.
    last_election: str | UnsetType = UNSET


class SyncStateData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_SYNC_STATE_DATA (1006)."""

    replicas_info_table: dict[str, ReplicasInfo]


class CleanBrokerDataHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of CLEAN_BROKER_DATA (1011)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    #: Ids with a `;` between; missing for the whole set.
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False


class BrokerIdHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_NEXT_BROKER_ID (1012) and APPLY_BROKER_ID (1013), and of their answers."""

    cluster_name: str | None = None
    broker_name: str | None = None
    #: Only of the answer to 1012.
    next_broker_id: Int64 | None = None
    #: Only of 1013.
    applied_broker_id: Int64 | None = None
    #: Only of 1013: `host:port;millis`; the part before the `;` becomes the broker's address.
    register_check_code: str | None = None
