"""electMaster and cleanBrokerMetadata, which the leading controller does."""

import re
from typing import Final

from remoting.admin.controllers import clean_broker_data, election
from rmq.failures import WrongUse
from rmq.mqadmin.admin import Admin, MqadminCommand, long_integer
from rmq.mqadmin.controller.leader import leader_of
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.hash_order import hash_map_order, long_hash
from rmq.mqadmin.java.options import options_of, switch, value

_ID: Final = re.compile(r"\d{1,19}", re.ASCII)


async def _elect(admin: Admin, line: CommandLine) -> None:
    cluster, broker = line.needed("c"), line.needed("bn")
    request = election(cluster, broker, long_integer(line, "b", 0))
    elected = await admin.call(await leader_of(admin, line.needed("a")), request)
    admin.printf("%n#ClusterName\t%s%n#BrokerName\t%s", cluster, broker)
    admin.printf("%n#BrokerMasterAddr\t%s", elected.header.master_address)
    admin.printf("%n#MasterEpoch\t%s", elected.header.master_epoch)
    admin.printf("%n#SyncStateSetEpoch\t%s%n", elected.header.sync_state_set_epoch)
    for broker_id in hash_map_order(elected.addresses or {}, long_hash):
        admin.printf("\t#Broker\t%d\t%s%n", broker_id, (elected.addresses or {})[broker_id])


async def _clean(admin: Admin, line: CommandLine) -> None:
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


ELECT_MASTER: Final = MqadminCommand(
    options_of(
        value("a", "controllerAddress", "The address of controller", required=True),
        value("b", "brokerId", "The id of the broker which requires to become master", required=True),
        value("bn", "brokerName", "The broker name of the replicas that require to be manipulated", required=True),
        value("c", "clusterName", "the clusterName of broker", required=True),
    ),
    _elect,
)
CLEAN_BROKER_METADATA: Final = MqadminCommand(
    options_of(
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
    ),
    _clean,
)
