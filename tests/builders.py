"""A small valid example of every value of a NameServer, so that a test writes only what it is about.

All of them fit together: without arguments they tell of the master of `broker-a` and its topic `TopicTest`.
"""

import json

from namesrv.core.registration.registration import HEARTBEAT_TIMEOUT_MS_DEFAULT, Registration
from namesrv.core.tables.broker_table import Member, RegisteredSet
from namesrv.core.tables.live_table import LiveKey, LiveRow
from namesrv.core.tables.topic_table import TopicSettings
from remoting.protocol.shapes.route import (
    MASTER_ID,
    PERM_READ,
    PERM_WRITE,
    DataVersion,
    QueueData,
    TopicQueueMappingInfo,
)

CLUSTER = "DefaultCluster"
BROKER = "broker-a"
TOPIC = "TopicTest"
CONNECTION = 1
#: Ordinal of the release that the default broker runs.
RELEASE = 513
WRITABLE = PERM_READ | PERM_WRITE
READ_ONLY = PERM_READ


def an_address(*, broker_name=BROKER, broker_id=MASTER_ID):
    return f"{broker_name}-{broker_id}:10911"


def a_data_version(*, counter=1, state_version=0):
    return DataVersion(counter=counter, state_version=state_version, timestamp=1_700_000_000_000)


# Brokers


def a_member(*, broker_name=BROKER, broker_id=MASTER_ID, address=None, cluster=CLUSTER, network=""):
    """Return a member that is, unless told otherwise, where its set's name and its id say."""
    return Member(address or an_address(broker_name=broker_name, broker_id=broker_id), cluster, network)


def a_broker_set(*, broker_name=BROKER, cluster=CLUSTER, broker_ids=(MASTER_ID,), **values):
    """Return a set of members with these ids, all of its cluster; `members` gives them in full instead."""
    members = {
        broker_id: a_member(broker_name=broker_name, broker_id=broker_id, cluster=cluster) for broker_id in broker_ids
    }
    return RegisteredSet(broker_name=broker_name, cluster=cluster, **({"members": members} | values))


def a_live_key(*, broker_name=BROKER, broker_id=MASTER_ID, address=None):
    return LiveKey(broker_name, address or an_address(broker_name=broker_name, broker_id=broker_id))


def a_live_row(**values):
    defaults = {
        "cluster": CLUSTER,
        "broker_id": MASTER_ID,
        "last_heartbeat_ms": 0,
        "timeout_ms": HEARTBEAT_TIMEOUT_MS_DEFAULT,
        "data_version": a_data_version(),
        "connection_id": CONNECTION,
        "ha_server_addr": "",
        "version": RELEASE,
        "filter_servers": (),
    }
    return LiveRow(**(defaults | values))


def a_registration(*, broker_name=BROKER, broker_id=MASTER_ID, **values):
    """Return a registration with two topics: one alone is only taken from brokers that are known."""
    defaults = {
        "cluster": CLUSTER,
        "address": an_address(broker_name=broker_name, broker_id=broker_id),
        "connection_id": CONNECTION,
        "version": RELEASE,
        "data_version": a_data_version(),
        "topics": topic_configs(TOPIC, broker_name),
    }
    return Registration(broker_name=broker_name, broker_id=broker_id, **(defaults | values))


# Topics


def topic_configs(*names, perm=WRITABLE, read_queue_nums=16):
    """Return what a registration says of topics that are all set alike."""
    settings = TopicSettings(perm=perm, read_queue_nums=read_queue_nums, write_queue_nums=16, topic_sys_flag=0)
    return dict.fromkeys(names, settings)


def a_queue_data(*, broker_name=BROKER, perm=WRITABLE, read_queue_nums=16, write_queue_nums=16):
    """Return what is stored of the default topic."""
    return QueueData(
        broker_name=broker_name,
        perm=perm,
        read_queue_nums=read_queue_nums,
        write_queue_nums=write_queue_nums,
    )


def queue_datas(*topics, **settings):
    """Return what is stored of topics that are all set alike, by topic."""
    return {topic: a_queue_data(**settings) for topic in topics}


def a_mapping(*, broker_name=BROKER, topic=TOPIC, curr_id_map=None):
    """Return the mapping of a static topic whose logical queues are all on this set, under the same ids."""
    return TopicQueueMappingInfo(
        bname=broker_name,
        topic=topic,
        total_queues=8,
        epoch=1,
        curr_id_map={queue: queue for queue in range(8)} if curr_id_map is None else curr_id_map,
    )


# Texts


def text_of(topics, *, counter=1, time=1_700_000_000_000, mappings=None, **more):
    """Return the body of a registration as a 5.x broker writes it; `topics` has their permissions."""
    table = {
        topic: {"attributes": {}, "order": False, "perm": perm, "readQueueNums": 8, "topicName": topic} | more
        for topic, perm in topics.items()
    }
    wrapper = {
        "dataVersion": {"counter": counter, "stateVersion": 0, "timestamp": 1},
        "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": time},
        "topicConfigTable": table,
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": mappings or {},
    }
    body = {"filterServerList": [], "topicConfigSerializeWrapper": wrapper}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
