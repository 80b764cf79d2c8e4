"""Commands of mqadmin about controllers and what they know of brokers."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import UNSET

from remoting.admin.configuration import update_config
from remoting.admin.controllers import clean_broker_data, controller_metadata, elect_master, sync_state_view
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.controller import InSyncReplica, ReplicasInfo
from rmq.failures import NotReachable, WrongUse
from rmq.mqadmin.admin import Admin, command, long_integer, print_configurations
from rmq.mqadmin.java.hash_order import hash_map_order, long_hash, string_order
from rmq.mqadmin.java.options import CommandLine, switch, value

_ID: Final = re.compile(r"\d{1,19}", re.ASCII)


@command("getControllerMetaData", value("a", "controllerAddress", "the address of controller", required=True))
async def _get_controller_meta_data(admin: Admin, line: CommandLine) -> None:
    found = await admin.call(line.needed("a"), controller_metadata())
    admin.printf("%n#ControllerGroup\t%s", found.group)
    admin.printf("%n#ControllerLeaderId\t%s", found.controller_leader_id)
    admin.printf("%n#ControllerLeaderAddress\t%s", found.controller_leader_address)
    # Java's split leaves out what is blank at the end.
    for peer in (found.peers or "").rstrip(";").split(";"):
        if peer:
            admin.printf("%n#Peer:\t%s", peer)
    admin.printf("%n")


async def leader_of(admin: Admin, controller: str) -> str:
    """Return the address of the leader; raises CommandFailed."""
    leader = (await admin.call(controller, controller_metadata())).controller_leader_address
    if not leader:
        raise NotReachable(f"{controller}: no controller leads now")
    return leader


@command(
    "getSyncStateSet",
    value("a", "controllerAddress", "the address of controller", required=True),
    value("c", "clusterName", "which cluster"),
    value("b", "brokerName", "which broker to fetch"),
    value("i", "interval", "the interval(second) of get info"),
)
async def _get_sync_state_set(admin: Admin, line: CommandLine) -> None:
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
    for name in string_order(found):
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


@command(
    "electMaster",
    value("a", "controllerAddress", "The address of controller", required=True),
    value("b", "brokerId", "The id of the broker which requires to become master", required=True),
    value("bn", "brokerName", "The broker name of the replicas that require to be manipulated", required=True),
    value("c", "clusterName", "the clusterName of broker", required=True),
)
async def _elect_master(admin: Admin, line: CommandLine) -> None:
    cluster, broker = line.needed("c"), line.needed("bn")
    request = elect_master(cluster, broker, long_integer(line, "b", 0))
    elected = await admin.call(await leader_of(admin, line.needed("a")), request)
    admin.printf("%n#ClusterName\t%s%n#BrokerName\t%s", cluster, broker)
    admin.printf("%n#BrokerMasterAddr\t%s", elected.header.master_address)
    admin.printf("%n#MasterEpoch\t%s", elected.header.master_epoch)
    admin.printf("%n#SyncStateSetEpoch\t%s%n", elected.header.sync_state_set_epoch)
    for broker_id in hash_map_order(elected.addresses or {}, long_hash):
        admin.printf("\t#Broker\t%d\t%s%n", broker_id, (elected.addresses or {})[broker_id])


@command(
    "cleanBrokerMetadata",
    value("a", "controllerAddress", "The address of controller", required=True),
    value(
        "b",
        "brokerControllerIdsToClean",
        "The brokerController id list which requires to clean metadata. eg: 1;2;3, means that clean broker-1, "
        "broker-2 and broker-3",
    ),
    value("bn", "brokerName", "The broker name of the replicas that require to be manipulated", required=True),
    value("c", "clusterName", "The clusterName of broker"),
    switch("l", "cleanLivingBroker", "Whether clean up living brokers,default value is false"),
)
async def _clean_broker_metadata(admin: Admin, line: CommandLine) -> None:
    broker, cleans_living = line.needed("bn"), line.has("l")
    cluster = line.text("c") or ""
    if not cleans_living and not cluster:
        raise WrongUse("cleanLivingBroker option is false, clusterName option can not be empty.")
    request = clean_broker_data(cluster, broker, _ids(line), cleans_living=cleans_living)
    await admin.call(await leader_of(admin, line.needed("a")), request)
    admin.printf("clear broker %s metadata from controller success! %n", broker)


def _ids(line: CommandLine) -> list[int]:
    texts = [each for each in (line.text("b") or "").split(";") if each]
    if not all(_ID.fullmatch(each) for each in texts):
        raise WrongUse("please set the option <brokerControllerIdsToClean> according to the format: 1;2;3")
    return [int(each) for each in texts]


def _servers(line: CommandLine) -> list[str]:
    return [each for each in line.needed("a").split(";") if each]


@command(
    "getControllerConfig",
    value("a", "controllerAddress", "Controller address list, eg: 192.168.0.1:9878;192.168.0.2:9878", required=True),
)
async def _get_controller_config(admin: Admin, line: CommandLine) -> None:
    await print_configurations(admin, _servers(line), RequestCode.GET_CONTROLLER_CONFIG)


@command(
    "updateControllerConfig",
    value("a", "controllerAddress", "Controller address list, eg: 192.168.0.1:9878;192.168.0.2:9878", required=True),
    value("k", "key", "config key", required=True),
    value("v", "value", "config value", required=True),
)
async def _update_controller_config(admin: Admin, line: CommandLine) -> None:
    key, text, servers = line.needed("k"), line.needed("v"), _servers(line)
    await admin.at_each(servers, update_config("controller", {key: text}))
    admin.printf("update controller config success!%s%n%s : %s%n", f"[{', '.join(servers)}]", key, text)
