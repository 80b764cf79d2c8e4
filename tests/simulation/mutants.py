"""The product with one thing wrong each, to see that a simulated history shows it."""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

from msgspec.structs import replace

from controller.app import controller_core
from controller.decisions import election
from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import decide_election, elect
from controller.decisions.membership import decide_adoption, decide_alteration, decide_id
from controller.failover import election_runner, requests
from controller.failover.election_runner import ElectionRunner
from controller.failover.group import Group
from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import HeartbeatTable
from controller.failure_detection.suspicion import ProbeOutcome
from controller.sets.broker_set import (
    RECOVERY_MARGIN,
    BrokerIdApplied,
    BrokerSet,
    EpochStart,
    MasterElected,
    MasterEpochRaised,
    MasterLost,
    SyncStateSetAltered,
)
from controller.sets.stored_set import SetDecision, StoredSet
from simulation import controllers
from store.etcd import calls, client, etcd_store
from store.etcd.client import EtcdClient
from store.etcd.lease import LeaderElection
from store.etcd.lease_state_machine import GrantLease, Leadership, Renew


def anybody_is_elected(name, entry, view, call):
    return decide_election(name, entry, view, replace(call, allows_unclean=True))


def first_come_is_elected(name, entry, view, call):
    decision = decide_election(name, entry, view, call)
    if decision.events and call.broker_id in view.trusted:
        return replace(decision, events=(MasterElected(call.broker_id),))
    return decision


def the_recorded_master_is_lost_to_whoever_asks(name, entry, view, call):
    master = entry.broker_set.master if entry.broker_set is not None else None
    if master is None:
        return decide_election(name, entry, view, call)
    others = {i: heartbeat for i, heartbeat in view.trusted.items() if i != master}
    return decide_election(name, entry, ClusterView(trusted=others), call)


def suspects_are_replaced(name, entry, view, call):
    return decide_election(name, entry, ClusterView(trusted=view.trusted), call)


def brokers_are_queried_as_if_the_master_were_lost(broker_set, view, call):
    others = {i: heartbeat for i, heartbeat in view.trusted.items() if i != broker_set.master}
    return elect(broker_set, ClusterView(trusted=others), call)


def epochs_in_logs_do_not_count(name, entry, view, call):
    decision = decide_election(name, entry, view, call)
    return replace(decision, events=tuple(each for each in decision.events if not isinstance(each, MasterEpochRaised)))


def a_claim_of_anybody_wins(name, entry, view, call):
    """Let the longest log lead as soon as any member claims a higher epoch."""
    broker_set = entry.broker_set
    if broker_set is None or not broker_set.is_elected or not view.claims(broker_set):
        return decide_election(name, entry, view, call)
    doubted = replace(broker_set, is_rebuilding=True, sync_state_set=frozenset(broker_set.replicas))
    return decide_election(name, StoredSet(broker_set=doubted, floor=entry.floor), view, call)


def close_by(decision):
    """Raise epochs only above what was heard."""
    events = decision.events
    return replace(
        decision,
        events=tuple(
            MasterEpochRaised(each.master_epoch - RECOVERY_MARGIN)
            if isinstance(each, MasterEpochRaised) and each.master_epoch >= RECOVERY_MARGIN
            else each
            for each in events
        ),
    )


def no_margin_in_elections(name, entry, view, call):
    return close_by(decide_election(name, entry, view, call))


def no_margin_in_adoptions(entry, registrant, epoch):
    return close_by(decide_adoption(entry, registrant, epoch))


class AnyConnectionRaises(HeartbeatTable):
    """As in Java: what any heartbeat claims stays."""

    def record_heartbeat(self, key, heartbeat, home=""):
        before = self.get(key)
        return super().record_heartbeat(
            key, heartbeat if before is None else replace(heartbeat, connection_id=before.connection_id), home
        )


_after = SetDecision.after


def the_epoch_stays(decision, entry):
    """Let a master be elected in the epoch before."""
    after = _after(decision, entry)
    if entry.broker_set is None or after.broker_set is None or not entry.broker_set.is_elected:
        return after
    return replace(after, broker_set=replace(after.broker_set, master_epoch=entry.broker_set.master_epoch))


def the_epoch_of_the_sync_state_set_stays(decision, entry):
    after = _after(decision, entry)
    if entry.broker_set is None or after.broker_set is None or not entry.broker_set.is_elected:
        return after
    same = entry.broker_set.sync_state_set_epoch
    return replace(after, broker_set=replace(after.broker_set, sync_state_set_epoch=same))


def the_sync_state_set_outlives_an_election(decision, entry):
    after = _after(decision, entry)
    if any(isinstance(each, MasterElected) for each in decision.events) and entry.broker_set.is_elected:
        members = entry.broker_set.sync_state_set
        return replace(after, broker_set=replace(after.broker_set, sync_state_set=members))
    return after


def a_restarted_master_goes_on(entry, registrant, epoch):
    decision = decide_adoption(entry, registrant, epoch)
    return replace(decision, events=tuple(each for each in decision.events if not isinstance(each, MasterLost)))


def any_report_counts(entry, wanted, alive):
    """Take what a master of any time says of any SyncStateSet."""
    if entry.broker_set is None or wanted.members == entry.broker_set.sync_state_set:
        return decide_alteration(entry, wanted, alive)
    return SetDecision(reply=None, events=(SyncStateSetAltered(wanted.members & entry.broker_set.replicas.keys()),))


def old_reports_count(entry, wanted, alive):
    """Take what the master made of an earlier SyncStateSet."""
    current = entry.broker_set.sync_state_set_epoch if entry.broker_set is not None else 0
    return decide_alteration(entry, replace(wanted, sync_state_set_epoch=current), alive)


def ids_are_given_twice(entry, applicant):
    if entry.broker_set is not None and applicant.broker_id in entry.broker_set.replicas:
        taken = BrokerIdApplied(applicant.broker_id, applicant.address, applicant.check_code)
        return SetDecision(reply=None, events=(taken,))
    return decide_id(entry, applicant)


class ClosedIsDead(FailureDetector):
    """As in Java: who closes a connection is dead."""

    def connection_lost(self, connection_id, now_ms):
        for key in super().connection_lost(connection_id, now_ms):
            self._suspicions[key].deadline_ms = now_ms
            self._suspicions[key].outcome = ProbeOutcome.NO_ANSWER
        return []


class NobodyIsAsked(FailureDetector):
    """Heartbeats alone count."""

    def probed(self, key, _outcome, now_ms):
        return super().probed(key, ProbeOutcome.REFUSED, now_ms)


class JudgesAtOnce(FailureDetector):
    """No pause after the start of the controller."""

    @property
    def pause_ends_ms(self):
        return 0


class GreedyLeadership(Leadership):
    """Leads until it hears of another leader."""

    def at(self, now_ms):
        return self if self.token else super().at(now_ms)


def commits_without(*compared):
    """Return a commit without some comparisons: of the key `leader` (0, 1), of the revision of the entry (2)."""
    commit = calls.commit

    def commits(*args):
        def without(compare, success, failure):
            left = [each for i, each in enumerate(compare) if i not in compared]
            return client.messages.TxnRequest(compare=left, success=success, failure=failure)

        messages = SimpleNamespace(**vars(client.messages) | {"TxnRequest": without})
        with mock.patch.object(calls, "messages", messages):
            return commit(*args)

    return commits


def counted_from_its_answer(kind):
    """Let a lease live from when its answer came."""
    perform = LeaderElection._perform

    async def performed(self, step, sent_ms):
        state = await perform(self, step, sent_ms)
        if type(step) is kind and state.lease is not None:
            return replace(state, lease=replace(state.lease, renewed_ms=self._clock.now_ms()))
        return state

    return performed


_request = EtcdClient.request


def asks_again(self, question, *, deadline_ms, is_repeatable=True):
    return _request(self, question, deadline_ms=deadline_ms)


_longest = election._longest


def does_not_wait_for_heartbeats(field, view, call):
    heartbeat = {i: replace(each, awaits_heartbeat=False) for i, each in view.heartbeats.items()}
    alive = {i: replace(each, awaits_heartbeat=False) for i, each in field.alive.items()}
    return _longest(field._replace(alive=alive), replace(view, heartbeats=heartbeat), call)


def a_new_epoch_cuts_nothing(broker_set, log_epoch, max_offset):
    led = broker_set.with_log_ends({broker_set.master: max(max_offset, 0)})
    return replace(led, epoch_start=EpochStart())


class Mutant(NamedTuple):
    """What is wrong, and how it is done: what stands where under which name."""

    patches: tuple[tuple[object, str, object], ...]
    #: From which history on it is looked for, as those before do not show it, and in which profile; blank for all.
    seed: int = 0
    profile: str = ""


def wrong(where, name, instead, *, seed=0, profile=""):
    return Mutant(((where, name, instead),), seed, profile)


MUTANTS = {
    "the SyncStateSet does not count in elections": wrong(
        election_runner, "decide_election", anybody_is_elected, seed=59
    ),
    "whoever asks is elected": wrong(
        election_runner, "decide_election", first_come_is_elected, seed=165, profile="safe"
    ),
    "a living master is replaced": Mutant(
        (
            (election_runner, "decide_election", the_recorded_master_is_lost_to_whoever_asks),
            (election_runner, "elect", brokers_are_queried_as_if_the_master_were_lost),
        ),
        profile="calm",
    ),
    "a suspect master is replaced": Mutant(
        (
            (election_runner, "decide_election", suspects_are_replaced),
            (election_runner, "elect", brokers_are_queried_as_if_the_master_were_lost),
        ),
        profile="calm",
    ),
    "epochs in logs do not count": wrong(
        election_runner, "decide_election", epochs_in_logs_do_not_count, seed=342, profile="lost"
    ),
    "a claim of anybody wins": wrong(election_runner, "decide_election", a_claim_of_anybody_wins, profile="liar"),
    "what comes over any connection counts": wrong(controllers, "HeartbeatTable", AnyConnectionRaises, profile="liar"),
    "a late broker can have seen the next epoch": Mutant(
        (
            (election_runner, "decide_election", no_margin_in_elections),
            (requests, "decide_adoption", no_margin_in_adoptions),
        ),
        seed=33,
        profile="late",
    ),
    "the master epoch does not move": wrong(SetDecision, "after", the_epoch_stays, seed=1, profile="safe"),
    "the SyncStateSet epoch does not move": wrong(
        SetDecision, "after", the_epoch_of_the_sync_state_set_stays, profile="safe"
    ),
    "a new master keeps the old SyncStateSet": wrong(SetDecision, "after", the_sync_state_set_outlives_an_election),
    "a restarted master keeps its epoch": wrong(
        requests, "decide_adoption", a_restarted_master_goes_on, seed=42, profile="safe"
    ),
    "any report of the SyncStateSet counts": wrong(
        requests, "decide_alteration", any_report_counts, seed=69, profile="safe"
    ),
    "late reports of the SyncStateSet count": wrong(
        requests, "decide_alteration", old_reports_count, seed=69, profile="safe"
    ),
    "ids are given twice": wrong(requests, "decide_id", ids_are_given_twice, seed=4),
    "a closed connection is a dead broker": wrong(controller_core, "FailureDetector", ClosedIsDead, seed=12),
    "silent brokers are not asked": wrong(controller_core, "FailureDetector", NobodyIsAsked, seed=12),
    "a new controller judges at once": wrong(controller_core, "FailureDetector", JudgesAtOnce),
    "a leader leads on after its lease": Mutant(
        (
            (etcd_store, "Leadership", GreedyLeadership),
            (Group, "_is_in_time", property(lambda _: True)),
        ),
        profile="safe",
    ),
    "the store does not compare the leader": wrong(calls, "commit", commits_without(0, 1), seed=38, profile="safe"),
    "the store does not compare the revision": wrong(calls, "commit", commits_without(2), seed=9, profile="safe"),
    "leaders are told apart by revisions alone": wrong(calls, "commit", commits_without(1), seed=6337, profile="lost"),
    "a renewed lease is counted from its answer": wrong(
        LeaderElection, "_perform", counted_from_its_answer(Renew), seed=8, profile="safe"
    ),
    "a granted lease is counted from its answer": wrong(
        LeaderElection, "_perform", counted_from_its_answer(GrantLease), profile="safe"
    ),
    "an unknown outcome is sent again": wrong(EtcdClient, "request", asks_again, seed=3, profile="safe"),
    "membership of the SyncStateSet proves a log": wrong(election, "_shortened", lambda *_: {}, seed=48),
    "known log ends are kept in memory only": wrong(
        BrokerSet, "with_log_ends", lambda broker_set, _: broker_set, seed=48
    ),
    "a new epoch does not cut what is known of logs": wrong(
        BrokerSet, "with_epoch_start", a_new_epoch_cuts_nothing, seed=9915
    ),
    "the answers of some are enough": wrong(ClusterView, "lacks_answers", lambda *_: False, seed=711, profile="fixed"),
    "old heartbeats tell how far logs are": wrong(ElectionRunner, "_fresh_from_ms", lambda *_: 0, profile="fixed"),
    "who has not beaten is left out of the longest": wrong(
        election, "_longest", does_not_wait_for_heartbeats, profile="late"
    ),
}


#: What some hundred histories of the profile that is about it have not shown yet: brokers are asked before an election,
#: and several rules stand behind one another.
UNSEEN = frozenset(
    {
        "a claim of anybody wins",
        "what comes over any connection counts",
        "a new controller judges at once",
        "old heartbeats tell how far logs are",
        "who has not beaten is left out of the longest",
    }
)


@contextmanager
def mutated(name):
    """Let one thing be wrong."""
    with ExitStack() as stack:
        for where, what, instead in MUTANTS[name].patches:
            stack.enter_context(mock.patch.object(where, what, instead))
        yield
