"""Bodies of the HTTP answers of a controller; `openapi.py` describes them from here. Times are Unix ms, UTC."""

import msgspec


class MemberView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One controller of the group."""

    id: str
    address: str
    is_leader: bool
    #: It is the one that answers.
    is_self: bool


class ControllerListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The controllers of the group, as the one that answers knows them."""

    group: str
    #: `leader`, `follower` or `candidate`: what the one that answers is.
    role: str
    #: None if nobody leads.
    leader_id: str | None
    leader_address: str | None
    leader_changes: int
    #: `embedded` or `etcd`.
    store: str
    #: For so long brokers without contact since its start are not judged; 0 once all can be.
    pause_ms: int
    members: list[MemberView]


class ReplicaView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One broker of a set."""

    broker_id: int
    address: str
    is_master: bool
    in_sync: bool
    alive: bool
    #: It may have failed, and is being probed.
    suspect: bool
    #: When it was in contact last, and what it reported; None without contact since this controller started.
    last_contact_unix_ms: int | None
    epoch: int | None
    max_offset: int | None
    confirm_offset: int | None
    election_priority: int | None


class StoredSetView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One broker set."""

    broker_name: str
    cluster: str
    #: `healthy`, `under_replicated` or `no_master`.
    state: str
    master_broker_id: int | None
    master_address: str | None
    master_epoch: int
    sync_state_set: list[int]
    sync_state_set_epoch: int
    next_broker_id: int
    replicas: list[ReplicaView]
    #: The number of its last election that is known here, and why it ended so; see /v1/elections.
    last_election: int | None
    last_election_reason: str | None


class BrokerSetListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of broker sets, in the order of their names."""

    broker_sets: list[StoredSetView]
    total: int
    next_cursor: str | None


class RoleView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The role of one broker, as the role check port answers it."""

    broker_id: int
    address: str
    #: `serves`, `failed`, `superseded`, `held` or `unknown`.
    verdict: str
    #: Why it is unknown; blank if it is not.
    doubt: str


class SetRolesView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The roles in one broker set."""

    broker_name: str
    cluster: str
    master_broker_id: int | None
    master_address: str | None
    master_epoch: int
    #: Its master has changed to master in this epoch and has not failed since, and the one that answers knows it.
    confirmed: bool
    #: Until then a switchover holds it; None if none does.
    held_until_unix_ms: int | None
    roles: list[RoleView]


class RoleListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of broker sets with the roles of their brokers, in the order of their names."""

    #: Only a controller that leads has verdicts; those of all others are `unknown`.
    is_leader: bool
    broker_sets: list[SetRolesView]
    total: int
    next_cursor: str | None


class CandidateView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One broker in an election."""

    broker_id: int
    address: str
    in_sync: bool
    #: Elected, or why not.
    verdict: str
    epoch: int | None
    max_offset: int | None
    election_priority: int | None
    #: How many bytes less of its log it reports than it was known to have.
    lost_bytes: int


class PhasesView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How long each part took."""

    #: From the last sign of life of the master until it was suspect.
    suspect_ms: int | None
    #: From then until it was judged to have failed.
    judge_ms: int | None
    #: From then until hosts that check its role led nobody to it any more; null if nothing waited for that.
    fence_ms: int | None
    #: From then, or from the request, until the result was stored.
    commit_ms: int


class NotifiedView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A broker that was notified of the result."""

    broker_id: int
    #: `ok`, `refused` if it answered with an error, `failed` without an answer, or `superseded` by a later election.
    result: str
    #: From the stored result until then.
    after_ms: int
    tries: int


class ElectionView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One election, and why it ended as it did."""

    number: int
    broker_name: str
    cluster: str
    unix_ms: int
    #: The address of the controller that held it.
    held_by: str
    #: What it was held for: `master_dead`, `master_not_heard`, `no_master`, `store_behind`, `broker`, `operator`,
    #: `switchover`.
    trigger: str
    cause: str
    #: `new_master_elected`, `keep_current_master` or `no_master_elected`.
    result: str
    reason: str
    candidates: list[CandidateView]
    old_master: int | None
    #: Who leads now; null where nobody does.
    new_master: int | None
    master_epoch: int
    sync_state_set_epoch: int
    unclean: bool
    #: What the elected lacks of the longest log in sync, or would if it was forced; None if nobody knows.
    bytes_at_stake: int | None
    #: Which brokers to start, so that the set has a master without a loss; blank where it has one, or may have soon.
    advice: str
    #: Command that would force a master, at that price, with what it needs; blank as above.
    force: str
    phases: PhasesView
    notified: list[NotifiedView]
    #: How often in a row it ended like this, and when last.
    times: int
    last_unix_ms: int


class ElectionListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The last elections, the newest first."""

    elections: list[ElectionView]
