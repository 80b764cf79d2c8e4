"""Headers of what a control plane sends to brokers."""

import msgspec

from remoting.shapes.integers import Int64


class NotifyMinBrokerIdChangeRequestHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of NOTIFY_MIN_BROKER_ID_CHANGE (905), one-way, in the order Java writes it."""

    offline_broker_addr: str | None = None
    min_broker_addr: str | None = None
    min_broker_id: Int64 | None = None
    ha_broker_addr: str | None = None
