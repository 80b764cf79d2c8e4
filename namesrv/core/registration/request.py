"""A REGISTER_BROKER request, decoded and checked. Pure values; `registration.py` decides what it changes."""

from collections.abc import Mapping
from typing import Final

import msgspec

from namesrv.core.registration.accepted_topics import PreviousRegistration
from namesrv.core.registration.reported_topics import ReportedTopics
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.topics import TopicSettings
from remoting.protocol.shapes.route import DataVersion, TopicQueueMappingInfo

#: The heartbeat timeout of a broker that requests none, in ms.
HEARTBEAT_TIMEOUT_MS_DEFAULT: Final = 120_000
#: The longest heartbeat timeout, in ms: with a longer one a broker could stay in the routes for good.
HEARTBEAT_TIMEOUT_MS_MAX: Final = 24 * 3600 * 1000

#: The version of a registration without a body.
NO_VERSION: Final = DataVersion()


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """Which broker registers, where, and with which topics."""

    cluster: str
    broker_name: str
    broker_id: int
    #: `host:port` that the broker advertises; with the name it identifies the process.
    address: str
    ha_server_addr: str = ""
    zone_name: str | None = None
    #: None from a 4.x broker, which does not know the field.
    enable_acting_master: bool | None = None
    heartbeat_timeout_ms: int = HEARTBEAT_TIMEOUT_MS_DEFAULT
    data_version: DataVersion = NO_VERSION
    #: All topics, one part of a split registration, or the changed ones only: they cannot be distinguished. Of topics
    #: that are known to be as before, none need to be here.
    topics: Mapping[str, TopicSettings] = msgspec.field(default_factory=dict)
    mappings: Mapping[str, TopicQueueMappingInfo] = msgspec.field(default_factory=dict)
    #: None keeps what is stored.
    filter_servers: tuple[str, ...] | None = None
    connection_id: int
    #: Whence the registration came, as `network_of`.
    network: str = ""
    #: The connection is gone already.
    is_late: bool = False
    #: Ordinal of the broker's release.
    version: int = 0
    #: Topics that were left out because their names cannot be topics.
    ignored_topics: int = 0
    #: Size of the request's body as it came.
    body_bytes: int = 0
    #: The text in digests, to recognise the same or a similar one.
    reported: ReportedTopics | None = None
    #: What `topics` are the difference to; None if they are all that was reported.
    base: PreviousRegistration | None = None

    @property
    def key(self) -> LiveKey:
        """The member that registers."""
        return LiveKey(self.broker_name, self.address)

    @property
    def identity(self) -> tuple[object, ...]:
        """All that a broker reports of itself beside its topics."""
        return (
            self.cluster,
            self.broker_id,
            self.ha_server_addr,
            self.zone_name,
            self.enable_acting_master,
            self.heartbeat_timeout_ms,
            self.version,
        )

    @property
    def reported_topics(self) -> int:
        """How many topics the broker reported, with those that are not in `topics`."""
        return self.reported.topics if self.reported else len(self.topics)
