"""The commands of mqadmin 5.5.0 in its order. Nothing is imported here that a command needs."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class MqadminEntry(NamedTuple):
    """One command: what mqadmin writes about it, and the module that has it here; None if it is not."""

    summary: str
    module: str | None = None


MQADMIN_COMMANDS: Final[Mapping[str, MqadminEntry]] = {
    "updateTopic": MqadminEntry("Update or create topic.", "topics"),
    "updateTopicList": MqadminEntry("create or update topic in batch"),
    "deleteTopic": MqadminEntry("Delete topic from broker and NameServer.", "topics"),
    "updateSubGroup": MqadminEntry("Update or create subscription group.", "groups"),
    "updateSubGroupList": MqadminEntry("Update or create subscription group in batch"),
    "setConsumeMode": MqadminEntry("Set consume message mode. pull/pop etc.", "groups"),
    "deleteSubGroup": MqadminEntry("Delete subscription group from broker.", "groups"),
    "updateBrokerConfig": MqadminEntry("Update broker's config.", "brokers"),
    "updateTopicPerm": MqadminEntry("Update topic perm.", "topics"),
    "topicRoute": MqadminEntry("Examine topic route info.", "topics"),
    "topicStatus": MqadminEntry("Examine topic Status info.", "topics"),
    "topicClusterList": MqadminEntry("Get cluster info for topic.", "topics"),
    "addBroker": MqadminEntry("Add a broker to specified container."),
    "removeBroker": MqadminEntry("Remove a broker from specified container."),
    "resetMasterFlushOffset": MqadminEntry("Reset master flush offset in slave."),
    "brokerStatus": MqadminEntry("Fetch broker runtime status data.", "brokers"),
    "queryMsgById": MqadminEntry("Query Message by Id."),
    "queryMsgByKey": MqadminEntry("Query Message by Key."),
    "queryMsgByUniqueKey": MqadminEntry("Query Message by Unique key."),
    "queryMsgByOffset": MqadminEntry("Query Message by offset."),
    "queryMsgTraceById": MqadminEntry("Query a message trace."),
    "printMsg": MqadminEntry("Print Message Detail."),
    "printMsgByQueue": MqadminEntry("Print Message Detail by queueId."),
    "sendMsgStatus": MqadminEntry("Send msg to broker."),
    "brokerConsumeStats": MqadminEntry("Fetch broker consume stats data.", "progress"),
    "producerConnection": MqadminEntry("Query producer's socket connection and client version.", "groups"),
    "consumerConnection": MqadminEntry(
        "Query consumer's socket connection, client version and subscription.", "groups"
    ),
    "consumerProgress": MqadminEntry("Query consumer's progress, speed.", "progress"),
    "consumerStatus": MqadminEntry("Query consumer's internal data structure.", "running"),
    "cloneGroupOffset": MqadminEntry("Clone offset from other group.", "offsets"),
    "producer": MqadminEntry("Query producer's instances, connection, status, etc.", "groups"),
    "clusterList": MqadminEntry("List cluster infos.", "brokers"),
    "topicList": MqadminEntry("Fetch all topic list from name server.", "topics"),
    "updateKvConfig": MqadminEntry("Create or update KV config.", "namesrv"),
    "deleteKvConfig": MqadminEntry("Delete KV config.", "namesrv"),
    "wipeWritePerm": MqadminEntry(
        "Wipe write perm of broker in all name server you defined in the -n param.",
        "namesrv",
    ),
    "addWritePerm": MqadminEntry("Add write perm of broker in all name server you defined in the -n param.", "namesrv"),
    "resetOffsetByTime": MqadminEntry("Reset consumer offset by timestamp(without client restart).", "offsets"),
    "skipAccumulatedMessage": MqadminEntry(
        "Skip all messages that are accumulated (not consumed) currently.", "offsets"
    ),
    "updateOrderConf": MqadminEntry("Create or update or delete order conf.", "topics"),
    "cleanExpiredCQ": MqadminEntry("Clean expired ConsumeQueue on broker.", "brokers"),
    "deleteExpiredCommitLog": MqadminEntry("Delete expired CommitLog files.", "brokers"),
    "cleanUnusedTopic": MqadminEntry("Clean unused topic on broker.", "brokers"),
    "startMonitoring": MqadminEntry("Start Monitoring."),
    "statsAll": MqadminEntry("Topic and Consumer tps stats.", "progress"),
    "allocateMQ": MqadminEntry("Allocate MQ.", "topics"),
    "checkMsgSendRT": MqadminEntry("Check message send response time."),
    "clusterRT": MqadminEntry("List All clusters Message Send RT."),
    "getNamesrvConfig": MqadminEntry("Get configs of name server.", "namesrv"),
    "updateNamesrvConfig": MqadminEntry("Update configs of name server.", "namesrv"),
    "getBrokerConfig": MqadminEntry("Get broker config by cluster or special broker.", "brokers"),
    "getConsumerConfig": MqadminEntry("Get consumer config by subscription group name.", "groups"),
    "queryCq": MqadminEntry("Query cq command."),
    "sendMessage": MqadminEntry("Send a message."),
    "consumeMessage": MqadminEntry("Consume message."),
    "updateStaticTopic": MqadminEntry("Update or create static topic, which has fixed number of queues."),
    "remappingStaticTopic": MqadminEntry("Remapping static topic."),
    "exportMetadata": MqadminEntry("Export metadata."),
    "exportConfigs": MqadminEntry("Export configs."),
    "exportMetrics": MqadminEntry("Export metrics."),
    "exportMetadataInRocksDB": MqadminEntry(
        "export RocksDB kv config (topics/subscriptionGroups). Recommend to use [mqadmin rocksDBConfigToJson]"
    ),
    "exportPopRecord": MqadminEntry("Export pop consumer record"),
    "haStatus": MqadminEntry("Fetch ha runtime status data.", "brokers"),
    "getSyncStateSet": MqadminEntry("Fetch syncStateSet for target brokers.", "controllers"),
    "getBrokerEpoch": MqadminEntry("Fetch broker epoch entries.", "brokers"),
    "getControllerMetaData": MqadminEntry("Get controller cluster's metadata.", "controllers"),
    "getControllerConfig": MqadminEntry("Get controller config.", "controllers"),
    "updateControllerConfig": MqadminEntry("Update controller config.", "controllers"),
    "electMaster": MqadminEntry("Re-elect the specified broker as master.", "controllers"),
    "cleanBrokerMetadata": MqadminEntry("Clean metadata of broker on controller.", "controllers"),
    "dumpCompactionLog": MqadminEntry("Parse compaction log to message."),
    "getColdDataFlowCtrInfo": MqadminEntry("Get cold data flow ctr info."),
    "updateColdDataFlowCtrGroupConfig": MqadminEntry("Add or update cold data flow ctr group config."),
    "removeColdDataFlowCtrGroupConfig": MqadminEntry("Remove consumer from cold ctr config."),
    "setCommitLogReadAheadMode": MqadminEntry("Set read ahead mode for all commitlog files."),
    "createUser": MqadminEntry("Create user to cluster."),
    "updateUser": MqadminEntry("Update user to cluster."),
    "deleteUser": MqadminEntry("Delete user from cluster."),
    "getUser": MqadminEntry("Get user from cluster."),
    "listUser": MqadminEntry("List user from cluster."),
    "copyUser": MqadminEntry("Copy user to cluster."),
    "createAcl": MqadminEntry("Create acl to cluster."),
    "updateAcl": MqadminEntry("Update acl to cluster."),
    "deleteAcl": MqadminEntry("Delete acl from cluster."),
    "getAcl": MqadminEntry("Get acl from cluster."),
    "listAcl": MqadminEntry("List acl from cluster."),
    "copyAcl": MqadminEntry("Copy acl to cluster."),
    "rocksDBConfigToJson": MqadminEntry(
        "Convert RocksDB kv config (topics/subscriptionGroups/consumerOffsets) to json. [rpc mode] Use [-n, -c, -b, -t]"
        " to send Request to broker ( version >= 5.3.2 ) or [local mode] use [-p, -t, -j, -e] to load RocksDB."
        " If -e is provided, tools will export json file instead of std print"
    ),
    "checkRocksdbCqWriteProgress": MqadminEntry("check if rocksdb cq is same as file cq"),
    "switchTimerEngine": MqadminEntry("switch the engine of timer message in broker"),
    "getBrokerLiteInfo": MqadminEntry("Get broker lite info."),
    "getParentTopicInfo": MqadminEntry("Get parent topic info."),
    "getLiteTopicInfo": MqadminEntry("Get lite topic info."),
    "getLiteClientInfo": MqadminEntry("Get lite client info."),
    "getLiteGroupInfo": MqadminEntry("Get lite group info."),
    "triggerLiteDispatch": MqadminEntry("Trigger Lite Dispatch."),
}

#: Other names.
ALIASES: Final[Mapping[str, str]] = {"queryMsgTraceById": "QueryMsgTraceById"}
