"""Requests to controllers: who leads, broker sets, elections, cleaning. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing, reading
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.controller import (
    CleanBrokerDataHeader,
    ElectMasterBody,
    ElectMasterHeader,
    InSyncReplica,
    MasterHeader,
    ReplicasInfo,
    SyncStateData,
    SyncStateDataHeader,
)


class ReportedMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a controller reports of its group; None is what it does not report."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    #: `id:host:port;` for each member.
    peers: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedReplica:
    broker_id: int
    address: str
    is_alive: bool
    is_in_sync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedBrokerSet:
    """A broker set as a controller knows it."""

    #: None while it has no master.
    master_broker_id: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set_epoch: int
    #: Those in sync first.
    replicas: tuple[ReportedReplica, ...]
    #: Only of a controller of ours.
    cluster: str | None = None
    #: How its last election ended; only as above.
    last_election: str | None = None

    @property
    def lacking(self) -> list[ReportedReplica]:
        """The brokers that are not alive, or not in sync."""
        return [each for each in self.replicas if not (each.is_alive and each.is_in_sync)]

    @property
    def alive(self) -> list[ReportedReplica]:
        """The brokers whose heartbeats the controller has."""
        return [each for each in self.replicas if each.is_alive]

    @property
    def has_living_master(self) -> bool:
        return any(each.broker_id == self.master_broker_id for each in self.alive)


class ElectionAnswer(NamedTuple):
    header: MasterHeader
    #: By broker id; None if the answer has none.
    addresses: Mapping[int, str] | None


def controller_metadata() -> AdminRequest[ReportedMetadata]:
    """Request who leads (1005), from any controller of the group. Source: docs/protocol/controller.md 1.2."""
    return AdminRequest(
        command(RequestCode.CONTROLLER_GET_METADATA_INFO),
        lambda answer: decode_fields(ReportedMetadata, answer.ext_fields),
    )


def broker_sets_of(broker_names: Sequence[str] = ()) -> AdminRequest[Mapping[str, ReportedBrokerSet]]:
    """Request broker sets by their names (1006), from the leader; unknown ones are left out of the result.

    One of ours adds clusters and last elections, and returns every stored set where no name is given: Java's refuses
    that with code 1. Raises Refused with 2007 from who does not lead. Source: docs/protocol/controller.md 1.9.
    """
    header, names = SyncStateDataHeader(with_details=True), msgspec.json.encode(list(broker_names))
    return AdminRequest(command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, header, body=names), _read_sets)


def elect_master(cluster: str, broker_name: str, broker_id: int) -> AdminRequest[ElectionAnswer]:
    """Make a broker the master of its set (1002), at the leader, as mqadmin does: only if it is alive and allowed.

    Raises Refused: 2011 where the master stays, 2012 where the broker cannot be elected, 2010 for an unknown set.
    Source: docs/protocol/controller.md 1.6.
    """
    header = ElectMasterHeader(cluster_name=cluster, broker_name=broker_name, broker_id=broker_id, designate_elect=True)
    return AdminRequest(command(RequestCode.CONTROLLER_ELECT_MASTER, header), _read_election)


def clean_broker_data(
    cluster: str, broker_name: str, broker_ids: Sequence[int], *, cleans_living: bool
) -> AdminRequest[None]:
    """Remove brokers of a set from the controllers (1011), at the leader; without ids the whole set.

    Raises Refused with code 2009 for brokers that are alive, unless `cleans_living`, and for an unknown set.
    Source: docs/protocol/controller.md 1.10.
    """
    header = CleanBrokerDataHeader(
        cluster_name=cluster,
        broker_name=broker_name,
        broker_controller_ids_to_clean=";".join(map(str, broker_ids)) or None,
        is_clean_living_broker=cleans_living,
    )
    return AdminRequest(command(RequestCode.CLEAN_BROKER_DATA, header), read_nothing)


def _read_sets(answer: RemotingCommand) -> dict[str, ReportedBrokerSet]:
    body = decode_broker_body(SyncStateData, answer.body)
    return {name: _broker_set(each) for name, each in body.replicas_info_table.items()}


def _broker_set(body: ReplicasInfo) -> ReportedBrokerSet:
    return ReportedBrokerSet(
        master_broker_id=None if body.master_broker_id is UNSET else body.master_broker_id,
        master_address=None if body.master_address is UNSET else body.master_address,
        master_epoch=body.master_epoch,
        sync_state_set_epoch=body.sync_state_set_epoch,
        replicas=(
            *(_replica(each, is_in_sync=True) for each in body.in_sync_replicas),
            *(_replica(each, is_in_sync=False) for each in body.not_in_sync_replicas),
        ),
        cluster=None if body.cluster_name is UNSET else body.cluster_name,
        last_election=None if body.last_election is UNSET else body.last_election,
    )


def _replica(body: InSyncReplica, *, is_in_sync: bool) -> ReportedReplica:
    return ReportedReplica(
        broker_id=body.broker_id, address=body.broker_address, is_alive=body.alive, is_in_sync=is_in_sync
    )


def sync_state_view(broker_names: list[str]) -> AdminRequest[SyncStateData]:
    """Request broker sets by their names (1006), from the leader. Source: docs/protocol/controller.md 1.9."""
    request = command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=msgspec.json.encode(broker_names))
    return AdminRequest(request, reading(SyncStateData))


def _read_election(answer: RemotingCommand) -> ElectionAnswer:
    header = decode_fields(MasterHeader, answer.ext_fields)
    try:
        body = decode_broker_body(ElectMasterBody, answer.body)
    except BodyError:
        # The master has changed, whatever else the controller tells.
        return ElectionAnswer(header, None)
    # Java's controller has the group in a field of its own; ours has its fields beside it as well.
    addresses = body.broker_addrs or (body.broker_member_group and body.broker_member_group.broker_addrs)
    return ElectionAnswer(header, addresses or None)
