"""Bodies of the HTTP answers for programs that follow masters; `openapi.py` describes them from here."""

import msgspec


class MemberAddressView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One broker of a set."""

    broker_id: int
    address: str
    in_sync: bool


class SetMasterView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The master of one broker set."""

    broker_name: str
    cluster: str
    #: None if the set has no master.
    master_broker_id: int | None
    master_address: str | None
    #: Moves with every change of the master, also to none. What has a lower one than was seen before is out of date.
    master_epoch: int
    #: When the master was elected, Unix ms; None where the controller that answers does not know that election.
    elected_unix_ms: int | None
    #: It was elected although it was not in sync, so the end of the log is lost; None where the controller that answers
    #: does not know that election.
    elected_unclean: bool | None
    #: Moves with every change of who is in sync.
    sync_state_set_epoch: int
    members: list[MemberAddressView]


class MasterListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The masters of all sets, or of those that have changed."""

    #: Name of the controllers of one store (`controllerGroup`): sets of another one have nothing to do with these.
    controller_group: str
    #: For `after` of the next request; only the controller that gave it can compare it.
    revision: str
    #: These are all sets; others are gone. If not, these are the sets that have changed since `after`.
    complete: bool
    broker_sets: list[SetMasterView]
    #: Sets that are gone since `after`; empty if `complete`.
    removed: list[str]
    #: Sets of which nothing is known now, as what is stored of them cannot be read; they may still be there.
    unreadable: list[str]
