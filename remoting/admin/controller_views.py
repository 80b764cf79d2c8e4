"""Broker sets and elections, as a controller answers them. Pure.

The other modules read what rules need of the same answers.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, reading
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.controller import ElectMasterBody, ElectMasterHeader, MasterHeader, SyncStateData


class ElectionAnswer(NamedTuple):
    """The answer to an election."""

    header: MasterHeader
    #: By broker id; None if the answer has none.
    addresses: Mapping[int, str] | None


def sync_state_view(broker_names: list[str]) -> AdminRequest[SyncStateData]:
    """Request broker sets by their names (1006), from the leader. Source: docs/protocol/controller.md 1.9."""
    request = command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=msgspec.json.encode(broker_names))
    return AdminRequest(request, reading(SyncStateData))


def election(cluster: str, broker_name: str, broker_id: int) -> AdminRequest[ElectionAnswer]:
    """Make a broker the master of its set (1002), at the leader, as `controllers.elect_master`."""
    header = ElectMasterHeader(cluster_name=cluster, broker_name=broker_name, broker_id=broker_id, designate_elect=True)
    return AdminRequest(command(RequestCode.CONTROLLER_ELECT_MASTER, header), _read_election)


def _read_election(answer: RemotingCommand) -> ElectionAnswer:
    header = decode_fields(MasterHeader, answer.ext_fields)
    body = decode_broker_body(ElectMasterBody, answer.body)
    # Java's controller has the group in a field of its own; ours has its fields beside it as well.
    addresses = body.broker_addrs or (body.broker_member_group and body.broker_member_group.broker_addrs)
    return ElectionAnswer(header, addresses or None)
