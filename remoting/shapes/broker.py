"""Headers of what a control plane sends to brokers, and bodies of what they answer."""

import msgspec

from remoting.shapes.integers import Int64


class NotifyMinBrokerIdChangeRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of NOTIFY_MIN_BROKER_ID_CHANGE (905), one-way, in the order Java writes it."""

    offline_broker_addr: str | None = None
    min_broker_addr: str | None = None
    min_broker_id: Int64 | None = None
    ha_broker_addr: str | None = None


class EpochCache(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_BROKER_EPOCH_CACHE (1007), as far as it says who answers (controller.md 1.13)."""

    broker_name: str | None = None
    #: 0 of a master, -1 of one that starts, else the id that a controller gave.
    broker_id: Int64 | None = None
