"""Routes as they travel: the vocabulary that NameServers, brokers, clients and controllers share.

Answers to `TopicRouteData`, `BrokerData`, `QueueData`, `TopicConfig`, `DataVersion` and `TopicQueueMappingInfo`. Fields
stand in the alphabetical order of their wire names, because Java writes them so and some peers compare text. A field
that Java leaves out when it is null is UNSET here.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from remoting.protocol.shapes.integers import Int32, Int64

#: The broker id of a master; all others are slaves.
MASTER_ID: Final = 0

#: Bits of `perm`.
PERM_INHERIT: Final = 1
PERM_WRITE: Final = 2
PERM_READ: Final = 4

#: Bits of `topicSysFlag`.
SYS_FLAG_UNIT: Final = 1
SYS_FLAG_UNIT_SUB: Final = 2


class DataVersion(msgspec.Struct, frozen=True, rename="camel"):
    """Version of a broker's topics; two are equal only if all three numbers are."""

    counter: Int64 = 0
    #: Raised by a broker at each role change; 0 from 4.x brokers.
    state_version: Int64 = 0
    #: Unix ms of the last change, by the broker's clock.
    timestamp: Int64 = 0


# A million of these must not be looked through by the garbage collector; they refer to nothing that could refer back.
class QueueData(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """Queue counts and permission of a topic on one broker set."""

    broker_name: str = ""
    perm: Int32 = 0
    read_queue_nums: Int32 = 0
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 0


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A topic as its broker keeps it; of the rest (order, filter type, attributes) no NameServer takes notice."""

    perm: Int32 = PERM_READ | PERM_WRITE
    read_queue_nums: Int32 = 16
    topic_name: str = ""
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16


class UncheckedTopicConfig(TopicConfig, frozen=True, kw_only=True, gc=False, rename="camel"):
    """A topic whose numbers may be of any size, which is read faster: the reader checks each that is new to it."""

    perm: int = PERM_READ | PERM_WRITE
    read_queue_nums: int = 16
    topic_sys_flag: int = 0
    write_queue_nums: int = 16


class BrokerData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The live brokers of one set: broker id -> `host:port`."""

    broker_addrs: dict[int, str]
    broker_name: str
    cluster: str
    enable_acting_master: bool = False
    zone_name: str | UnsetType = UNSET


class TopicQueueMappingInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The logical queues of a static topic on one broker set: logical id -> queue id on the broker."""

    bname: str | UnsetType = UNSET
    curr_id_map: dict[Int32, Int32] | UnsetType = UNSET
    dirty: bool = False
    epoch: Int64 = 0
    scope: str | UnsetType = "__global__"
    topic: str | UnsetType = UNSET
    total_queues: Int32 = 0


class TopicRouteData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything a client needs to send to a topic or read from it."""

    broker_datas: list[BrokerData]
    #: Broker address -> filter servers; always written, nearly always empty.
    filter_server_table: dict[str, list[str]]
    order_topic_conf: str | UnsetType = UNSET
    queue_datas: list[QueueData]
    #: Broker name -> mapping; for static topics only.
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | UnsetType = UNSET
