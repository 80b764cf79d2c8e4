"""What an operator sees of brokers and their topics.

Answers whole, as an operator's tool prints them: what the shapes for rules leave out is in these. Numbers that an older
release does not write are 0, as in Java's objects. Source: docs/protocol/broker-admin.md 7 to 39.
"""

import msgspec

from remoting.protocol.shapes.integers import Int32, Int64


class StatsItemView(msgspec.Struct, frozen=True, kw_only=True):
    """One statistic over a minute, an hour or a day."""

    sum: Int64 = 0
    tps: float = 0


class BrokerStatsView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to VIEW_BROKER_STATS_DATA (315)."""

    stats_minute: StatsItemView = StatsItemView()
    stats_hour: StatsItemView = StatsItemView()
    stats_day: StatsItemView = StatsItemView()


class HaConnectionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One slave in a master's answer to GET_BROKER_HA_STATUS (907)."""

    addr: str | None = None
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class HaClientView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The slave's side in an answer to 907."""

    master_addr: str | None = None
    max_offset: Int64 = 0
    transferred_byte_in_second: Int64 = 0
    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_flush_offset: Int64 = 0


class HaStatusView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 907."""

    is_master: bool = msgspec.field(name="master")
    #: Where the log of a master ends.
    max_offset: Int64 | None = msgspec.field(name="masterCommitLogMaxOffset", default=None)
    in_sync_slave_nums: Int32 = 0
    ha_connection_info: list[HaConnectionView] = []
    ha_client_runtime_info: HaClientView = HaClientView()


class EpochView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One master epoch in a broker's log."""

    epoch: Int32 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = 0


class EpochsView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_BROKER_EPOCH_CACHE (1007)."""

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: Int64 = 0
    epoch_list: list[EpochView] = []
    max_offset: Int64 = 0


class BrokerStatsHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str
    #: Of a topic its name, of a group `topic@group`.
    stats_key: str
