"""getSyncStateSet: broker sets as the leading controller knows them."""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from remoting.admin.controllers import sync_state_view
from remoting.protocol.shapes.controller import InSyncReplica, ReplicasInfo
from rmq.mqadmin.admin import Admin, MqadminCommand, set_names
from rmq.mqadmin.controller.leader import leader_of
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _get(admin: Admin, line: CommandLine) -> None:
    async def once() -> None:
        controller, broker, cluster = line.needed("a").split(";")[0], line.text("b"), line.text("c")
        if broker is not None:
            await _print_sets(admin, controller, [broker])
        elif cluster is not None:
            await _print_sets(admin, controller, await admin.names_of(cluster))
        else:
            admin.print_usage()

    await admin.repeatedly(line, once)


async def _print_sets(admin: Admin, controller: str, names: Sequence[str]) -> None:
    found = (await admin.call(await leader_of(admin, controller), sync_state_view(list(names)))).replicas_info_table
    for name in set_names(found):
        _print_set(admin, name, found[name])


def _print_set(admin: Admin, name: str, found: ReplicasInfo) -> None:
    admin.printf(
        "%n#brokerName\t%s%n#MasterBrokerId\t%d%n#MasterAddr\t%s%n#MasterEpoch\t%d%n#SyncStateSetEpoch\t%d%n"
        "#SyncStateSetNums\t%d%n",
        name,
        None if found.master_broker_id is UNSET else found.master_broker_id,
        None if found.master_address is UNSET else found.master_address,
        found.master_epoch,
        found.sync_state_set_epoch,
        len(found.in_sync_replicas),
    )
    for each in found.in_sync_replicas:
        _print_replica(admin, "InSyncReplica", each)
    for each in found.not_in_sync_replicas:
        _print_replica(admin, "NotInSyncReplica", each)


def _print_replica(admin: Admin, kind: str, replica: InSyncReplica) -> None:
    admin.printf(
        f"%n{kind}:\tReplicaIdentity{{brokerName='%s', brokerId=%d, brokerAddress='%s', alive=%s}}%n",
        replica.broker_name,
        replica.broker_id,
        replica.broker_address,
        replica.alive,
    )


GET_SYNC_STATE_SET: Final = MqadminCommand(
    options_of(
        value("a", "controllerAddress", "the address of controller", required=True),
        value("c", "clusterName", "which cluster"),
        value("b", "brokerName", "which broker to fetch"),
        value("i", "interval", "the interval(second) of get info"),
    ),
    _get,
)
