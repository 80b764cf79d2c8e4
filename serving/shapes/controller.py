"""Bodies of the HTTP answers of a controller, but for queue scaling (`scaling.py`). Times are Unix ms, UTC."""

import msgspec


class MemberView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One controller of the group."""

    id: str
    address: str
    is_leader: bool
    #: It is the one that answers.
    is_self: bool


class ControllerListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The controllers of the group, as this one knows them."""

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
    """The role of one broker, as the role check port reports it."""

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
    """Duration of each part."""

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


class SwitchoverStepView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An ended phase of a switchover, and its evidence."""

    phase: str
    began_unix_ms: int
    lasted_ms: int
    evidence: str


class SwitchoverView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One switchover."""

    id: str
    broker_name: str
    cluster: str
    #: CATCH_UP, HOLD, DRAIN, ELECT, CONFIRM, VERIFY, ROLL_BACK: under way; DONE, FAILED, ROLLED_BACK, INTERRUPTED:
    #: ended.
    phase: str
    phase_since_unix_ms: int
    created_unix_ms: int
    old_master: int
    new_master: int
    #: The master epoch before, and that of the election once it is stored.
    old_epoch: int
    new_epoch: int | None
    #: Role checks are answered, so that proxies hold clients.
    is_held: bool
    #: For how long they were held; None before the end of that, or if they are not.
    held_ms: int | None
    requested_by: str
    reason: str
    #: Why it did not end as wanted; blank if it did, or is under way.
    problem: str
    warnings: list[str]
    steps: list[SwitchoverStepView]


class SwitchoverListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Switchovers that this controller has started, the newest first."""

    switchovers: list[SwitchoverView]


class RestartStepView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An ended phase of a rolling restart, and its evidence."""

    phase: str
    #: The broker that was to be restarted in it.
    broker_id: int | None
    began_unix_ms: int
    ended_unix_ms: int
    evidence: str


class RollingRestartView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The rolling restart of a set."""

    id: str
    broker_name: str
    cluster: str
    #: IN_SYNC, RESTART, SWITCHOVER: under way; DONE, FAILED, ABORTED: ended.
    phase: str
    phase_since_unix_ms: int
    created_unix_ms: int
    #: The broker to restart now; None: restart none.
    restart_now: int | None
    #: What it waits for, as of the last look.
    waits_for: str
    #: All brokers that it restarts, and those of them that have been restarted.
    broker_ids: list[int]
    restarted: list[int]
    #: It waits while so many of its cluster are under way that were begun before it.
    cluster_restarts_max: int
    requested_by: str
    reason: str
    problem: str
    steps: list[RestartStepView]


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
    """Sets for which onRoleChange should be called again."""

    #: Those whose names begin so; blank: all.
    prefix: str = ""


class Redelivery(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Number of sets for which onRoleChange will be called again."""

    broker_sets: int


class CallbackListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Changes that `onRoleChange` has not accepted, by set name."""

    #: `program`, `url`, or `none` if onRoleChange is blank.
    target: str
    undelivered: list[UndeliveredView]
    total: int
    next_cursor: str | None


class AnalysisItem(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The newest result of one analysis; times are `2026-11-21T20:00:00.123456Z`."""

    #: A1 to A16.
    job: str
    #: As it is in paths: `availability`.
    name: str
    question: str
    window_start: str
    window_end: str
    finished_at: str
    #: Rows of the result; the first 10,000 can be read here, all of them from its Parquet files.
    row_count: int


class AnalysisListing(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The newest results, by their job."""

    #: Whether `analyticsDir` is set: without it there are no results here.
    is_configured: bool
    items: list[AnalysisItem]
    #: Files that cannot be read, and why.
    problems: dict[str, str]


class AnalysisColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the rows."""

    name: str
    #: As Spark SQL names it: string, bigint, double, boolean, timestamp, array<bigint>, array<string>.
    type: str
    doc: str


class AnalysisRows(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A page of the rows of a result, those that matter most first."""

    result: AnalysisItem
    columns: list[AnalysisColumn]
    #: Rows of the filter.
    total: int
    next_cursor: str | None
    #: Objects with every column; times are `2026-11-21T20:00:00.123456Z`.
    items: list[msgspec.Raw]
