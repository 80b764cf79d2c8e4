"""What routes do not show of broker sets, for operators: in the answer of our NameServers to 106 and over HTTP."""

import msgspec


class AwayBrokerSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker set that was registered at a NameServer of ours and has no registered broker now."""

    cluster: str
    broker_name: str
    #: None in the first minute after the NameServer started, of a set that was registered before that.
    away_since_unix_ms: int | None
    #: Its last broker unregistered itself, as it does when it is stopped; it did not fall silent.
    was_unregistered: bool
    #: By broker id: those that it had last.
    broker_addrs: dict[int, str]


class LostTopics(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Topics in the routes of a broker set that its master has lacked since it became master."""

    cluster: str
    broker_name: str
    since_unix_ms: int
    count: int
    #: At most 10 of them.
    topics: list[str]


class StaleReplica(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A slave that has not copied the newest topics of its master: it would become master without them."""

    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
