"""Headers and bodies of the NameServer's requests, in the order of their codes (docs/protocol/namesrv.md 2).

A field that Java calls required can be missing on the wire; it is None here, and the command decides what that means.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from remoting.protocol.shapes.broker_sets import AwayBrokerSet, LostTopics, StaleReplica
from remoting.protocol.shapes.integers import Int32, Int64
from remoting.protocol.shapes.route import BrokerData, DataVersion, QueueData, TopicConfig, TopicQueueMappingInfo

#: KV namespace whose keys are topics and whose values are their order configuration, `broker-a:4;broker-b:4`.
ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"


class KvConfigHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of PUT_KV_CONFIG (100), GET_KV_CONFIG (101) and DELETE_KV_CONFIG (102), and of the answer to 101."""

    namespace: str | None = None
    key: str | None = None
    #: Only of 100 and of the answer.
    value: str | None = None


class RegisterBrokerRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of REGISTER_BROKER (103)."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    ha_server_addr: str | None = None
    broker_id: Int64 | None = None
    #: Ms; only from 5.x brokers with enableSlaveActingMaster.
    heartbeat_timeout_millis: Int64 | None = None
    #: Present from 5.x brokers.
    enable_acting_master: bool | None = None
    compressed: bool = False
    #: CRC-32 of the body as sent, sign bit cleared; 0 = not checked.
    body_crc32: Int32 = 0
    #: The zone of the whole set, from the broker's environment.
    zone_name: str | None = msgspec.field(name="__ZONE_NAME", default=None)


class RegisterBrokerResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Answer to REGISTER_BROKER (103): where a slave's master is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class TopicConfigAndMappingSerializeWrapper(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker's topics; the parts of it that a NameServer reads."""

    data_version: DataVersion | None = None
    topic_config_table: dict[str, TopicConfig] = {}
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = {}


class RegisterBrokerBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of REGISTER_BROKER (103) from version 37 on; older senders send the inner wrapper alone."""

    filter_server_list: list[str] = []
    topic_config_serialize_wrapper: TopicConfigAndMappingSerializeWrapper = TopicConfigAndMappingSerializeWrapper()


class BrokerIdentityHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of UNREGISTER_BROKER (104), QUERY_DATA_VERSION (322) and BROKER_HEARTBEAT (904): which broker."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None


class GetRouteInfoRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: str | None = None
    accept_standard_json_only: bool = False
    #: Ours alone: without what a NameServer that has just started knows from its peers. Peers ask so.
    registered_only: bool | None = None
    #: Zone routing of 5.x clients; both on every request of such a client.
    zone_mode: bool = msgspec.field(name="__ZONE_MODE", default=False)
    zone_name: str | None = msgspec.field(name="__ZONE_NAME", default=None)


class BrokerNameHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of WIPE_WRITE_PERM_OF_BROKER (205), ADD_WRITE_PERM_OF_BROKER (327), GET_BROKER_MEMBER_GROUP (901)."""

    broker_name: str | None = None
    #: Only of 901, which echoes it.
    cluster_name: str | None = None


class WipedWritePermHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of the answer to WIPE_WRITE_PERM_OF_BROKER (205)."""

    wipe_topic_count: Int32 | None = None


class AddedWritePermHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of the answer to ADD_WRITE_PERM_OF_BROKER (327)."""

    add_topic_count: Int32 | None = None


class TopicList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answers to 206, 224, 304 and 311 to 313."""

    #: Only of 304: a broker that can be queried for more.
    broker_addr: str | UnsetType = UNSET
    topic_list: list[str]


class TopicHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of DELETE_TOPIC_IN_NAMESRV (216) and REGISTER_TOPIC_IN_NAMESRV (217); of a broker's 202, 215, 300, 351."""

    topic: str | None = None
    #: Only of 216, and optional there.
    cluster_name: str | None = None


class RegisterTopicBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of REGISTER_TOPIC_IN_NAMESRV (217): of a whole route only the queues count."""

    queue_datas: list[QueueData] = []


class NamespaceHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str | None = None


class KvTable(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 219, and of that to 103 if there are order topics."""

    table: dict[str, str]


class ClusterHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str | None = None


class BrokerMemberGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The members of one broker set."""

    broker_addrs: dict[int, str]
    broker_name: str | UnsetType = UNSET
    cluster: str | UnsetType = UNSET


class GetBrokerMemberGroupBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_BROKER_MEMBER_GROUP (901)."""

    broker_member_group: BrokerMemberGroup


class ClusterInfoHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_BROKER_CLUSTER_INFO (106); Java has none."""

    with_away_broker_sets: bool = False
    #: Peers ask so.
    with_topic_digests: bool | None = None


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_BROKER_CLUSTER_INFO (106)."""

    #: By broker name.
    broker_addr_table: dict[str, BrokerData]
    #: Cluster -> names of its broker sets.
    cluster_addr_table: dict[str, list[str]]
    #: Ours alone, and only with `withAwayBrokerSets`: sets of which no broker is registered now.
    away_broker_sets: list[AwayBrokerSet] | UnsetType = UNSET
    #: As above.
    lost_topics: list[LostTopics] | UnsetType = UNSET
    stale_replicas: list[StaleReplica] | UnsetType = UNSET
    #: Ours alone, with `withTopicDigests` and if it has peers: broker name -> digest of the set's topics.
    topic_digests: dict[str, int] | UnsetType = UNSET
    #: With these digests: a random text of the NameServer's start.
    start_id: str | UnsetType = UNSET
