"""The commands of mqadmin 5.5.0 in its order. Nothing is imported here that a command needs."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class MqadminEntry(NamedTuple):
    """One command: what mqadmin writes about it, and where it is here; None if it is not."""

    summary: str
    place: str | None = None


MQADMIN_COMMANDS: Final[Mapping[str, MqadminEntry]] = {
    "updateTopic": MqadminEntry("Update or create topic.", "topics.changes.UPDATE_TOPIC"),
    "updateTopicList": MqadminEntry("create or update topic in batch"),
    "deleteTopic": MqadminEntry("Delete topic from broker and NameServer.", "topics.changes.DELETE_TOPIC"),
    "updateSubGroup": MqadminEntry("Update or create subscription group.", "groups.changes.UPDATE_SUB_GROUP"),
    "updateSubGroupList": MqadminEntry("Update or create subscription group in batch"),
    "setConsumeMode": MqadminEntry("Set consume message mode. pull/pop etc.", "groups.changes.SET_CONSUME_MODE"),
    "deleteSubGroup": MqadminEntry("Delete subscription group from broker.", "groups.changes.DELETE_SUB_GROUP"),
    "updateBrokerConfig": MqadminEntry("Update broker's config.", "brokers.configuration.UPDATE_BROKER_CONFIG"),
    "updateTopicPerm": MqadminEntry("Update topic perm.", "topics.permissions.UPDATE_TOPIC_PERM"),
    "topicRoute": MqadminEntry("Examine topic route info.", "topics.routes.TOPIC_ROUTE"),
    "topicStatus": MqadminEntry("Examine topic Status info.", "topics.status.TOPIC_STATUS"),
    "topicClusterList": MqadminEntry("Get cluster info for topic.", "topics.lists.TOPIC_CLUSTER_LIST"),
    "addBroker": MqadminEntry("Add a broker to specified container."),
    "removeBroker": MqadminEntry("Remove a broker from specified container."),
    "resetMasterFlushOffset": MqadminEntry("Reset master flush offset in slave."),
    "brokerStatus": MqadminEntry("Fetch broker runtime status data.", "brokers.status.BROKER_STATUS"),
    "queryMsgById": MqadminEntry("Query Message by Id."),
    "queryMsgByKey": MqadminEntry("Query Message by Key."),
    "queryMsgByUniqueKey": MqadminEntry("Query Message by Unique key."),
    "queryMsgByOffset": MqadminEntry("Query Message by offset."),
    "queryMsgTraceById": MqadminEntry("Query a message trace."),
    "printMsg": MqadminEntry("Print Message Detail."),
    "printMsgByQueue": MqadminEntry("Print Message Detail by queueId."),
    "sendMsgStatus": MqadminEntry("Send msg to broker."),
    "brokerConsumeStats": MqadminEntry(
        "Fetch broker consume stats data.", "brokers.consume_stats.BROKER_CONSUME_STATS"
    ),
    "producerConnection": MqadminEntry(
        "Query producer's socket connection and client version.", "groups.connections.PRODUCER_CONNECTION"
    ),
    "consumerConnection": MqadminEntry(
        "Query consumer's socket connection, client version and subscription.", "groups.connections.CONSUMER_CONNECTION"
    ),
    "consumerProgress": MqadminEntry("Query consumer's progress, speed.", "groups.progress.CONSUMER_PROGRESS"),
    "consumerStatus": MqadminEntry("Query consumer's internal data structure.", "groups.running.CONSUMER_STATUS"),
    "cloneGroupOffset": MqadminEntry("Clone offset from other group.", "offsets.clones.CLONE_GROUP_OFFSET"),
    "producer": MqadminEntry("Query producer's instances, connection, status, etc.", "groups.connections.PRODUCER"),
    "clusterList": MqadminEntry("List cluster infos.", "clusters.cluster_list.CLUSTER_LIST"),
    "topicList": MqadminEntry("Fetch all topic list from name server.", "topics.lists.TOPIC_LIST"),
    "updateKvConfig": MqadminEntry("Create or update KV config.", "namesrv.kv.UPDATE_KV_CONFIG"),
    "deleteKvConfig": MqadminEntry("Delete KV config.", "namesrv.kv.DELETE_KV_CONFIG"),
    "wipeWritePerm": MqadminEntry(
        "Wipe write perm of broker in all name server you defined in the -n param.",
        "namesrv.write_perm.WIPE_WRITE_PERM",
    ),
    "addWritePerm": MqadminEntry(
        "Add write perm of broker in all name server you defined in the -n param.", "namesrv.write_perm.ADD_WRITE_PERM"
    ),
    "resetOffsetByTime": MqadminEntry(
        "Reset consumer offset by timestamp(without client restart).", "offsets.resets.RESET_OFFSET_BY_TIME"
    ),
    "skipAccumulatedMessage": MqadminEntry(
        "Skip all messages that are accumulated (not consumed) currently.", "offsets.resets.SKIP_ACCUMULATED_MESSAGE"
    ),
    "updateOrderConf": MqadminEntry("Create or update or delete order conf.", "topics.order.UPDATE_ORDER_CONF"),
    "cleanExpiredCQ": MqadminEntry("Clean expired ConsumeQueue on broker.", "brokers.cleaning.CLEAN_EXPIRED_CQ"),
    "deleteExpiredCommitLog": MqadminEntry(
        "Delete expired CommitLog files.", "brokers.cleaning.DELETE_EXPIRED_COMMIT_LOG"
    ),
    "cleanUnusedTopic": MqadminEntry("Clean unused topic on broker.", "brokers.cleaning.CLEAN_UNUSED_TOPIC"),
    "startMonitoring": MqadminEntry("Start Monitoring."),
    "statsAll": MqadminEntry("Topic and Consumer tps stats.", "topics.statistics.STATS_ALL"),
    "allocateMQ": MqadminEntry("Allocate MQ.", "topics.allocation.ALLOCATE_MQ"),
    "checkMsgSendRT": MqadminEntry("Check message send response time."),
    "clusterRT": MqadminEntry("List All clusters Message Send RT."),
    "getNamesrvConfig": MqadminEntry("Get configs of name server.", "namesrv.configuration.GET_NAMESRV_CONFIG"),
    "updateNamesrvConfig": MqadminEntry(
        "Update configs of name server.", "namesrv.configuration.UPDATE_NAMESRV_CONFIG"
    ),
    "getBrokerConfig": MqadminEntry(
        "Get broker config by cluster or special broker.", "brokers.configuration.GET_BROKER_CONFIG"
    ),
    "getConsumerConfig": MqadminEntry(
        "Get consumer config by subscription group name.", "groups.configuration.GET_CONSUMER_CONFIG"
    ),
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
    "haStatus": MqadminEntry("Fetch ha runtime status data.", "brokers.replication.HA_STATUS"),
    "getSyncStateSet": MqadminEntry(
        "Fetch syncStateSet for target brokers.", "controller.sync_state.GET_SYNC_STATE_SET"
    ),
    "getBrokerEpoch": MqadminEntry("Fetch broker epoch entries.", "brokers.epochs.GET_BROKER_EPOCH"),
    "getControllerMetaData": MqadminEntry(
        "Get controller cluster's metadata.", "controller.metadata.GET_CONTROLLER_META_DATA"
    ),
    "getControllerConfig": MqadminEntry("Get controller config.", "controller.configuration.GET_CONTROLLER_CONFIG"),
    "updateControllerConfig": MqadminEntry(
        "Update controller config.", "controller.configuration.UPDATE_CONTROLLER_CONFIG"
    ),
    "electMaster": MqadminEntry("Re-elect the specified broker as master.", "controller.elections.ELECT_MASTER"),
    "cleanBrokerMetadata": MqadminEntry(
        "Clean metadata of broker on controller.", "controller.elections.CLEAN_BROKER_METADATA"
    ),
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
