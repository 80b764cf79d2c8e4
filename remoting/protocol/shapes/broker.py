"""Headers of what a control plane sends to brokers, and bodies of what they answer."""

import msgspec

from remoting.protocol.shapes.integers import Int64


class NotifyMinBrokerIdChangeRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of NOTIFY_MIN_BROKER_ID_CHANGE (905), one-way, in the order Java writes it."""

    offline_broker_addr: str | None = None
    min_broker_addr: str | None = None
    min_broker_id: Int64 | None = None
    ha_broker_addr: str | None = None


class EpochEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One epoch in the log of a broker."""

    epoch: Int64
    #: Where it begins, in bytes of the log.
    start_offset: Int64 = 0


class EpochCache(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_BROKER_EPOCH_CACHE (1007): who answers, and how far its log is.

    Source: docs/protocol/controller.md 1.13.
    """

    broker_name: str | None = None
    #: 0 of a master, -1 of one that starts, else the id that a controller gave.
    broker_id: Int64 | None = None
    epoch_list: list[EpochEntry] | None = None
    #: Where its log ends.
    max_offset: Int64 | None = None
