"""Bodies of the HTTP answers about callbacks; `openapi.py` describes them from here. Times are Unix ms, UTC."""

import msgspec


class MasterRefView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A master of a set."""

    broker_id: int
    address: str


class UndeliveredView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A set whose last change of the master was not delivered."""

    cluster: str
    broker_name: str
    master_epoch: int
    #: The master that was delivered last; None if there was none, or none is known.
    old_master: MasterRefView | None
    #: None if the set has no master.
    new_master: MasterRefView | None
    since_unix_ms: int
    #: It is being called.
    running: bool
    #: Attempts that failed, and why the last one did; blank before.
    failures: int
    error: str


class RedeliveryRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Which sets are to be called once more."""

    #: Those whose names begin so; blank: all.
    prefix: str = ""


class Redelivery(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Sets that are called once more, as soon as it is their turn."""

    broker_sets: int


class CallbackListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What `onRoleChange` has not taken, in the order of the sets' names."""

    #: `program`, `url`, or `none` if onRoleChange is blank.
    target: str
    undelivered: list[UndeliveredView]
    total: int
    next_cursor: str | None
