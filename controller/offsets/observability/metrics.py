"""The metrics of an offset manager as Prometheus scrapes them: read from the service, the store and counts."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from controller.offsets.locks.held_cluster import HeldCluster
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.statuses import MirrorStatus
from controller.offsets.observability import metric_catalogue as catalogue
from controller.offsets.observability.counters import OffsetCounters
from controller.offsets.service.lock_service import LockService
from controller.offsets.service.offset_service import OffsetService
from controller.offsets.storage.write_behind import WriteBehind
from controller.offsets.topology.values import FollowedSet
from serving.metrics.counters import LabelGuard
from serving.metrics.exposition import Histograms, HttpServerMetrics, ProcessSources, Values, by_label, single
from serving.metrics.families import MetricFamily


class FollowedSets(Protocol):
    """The broker sets that are followed."""

    @property
    def sets(self) -> Mapping[str, FollowedSet]:
        """All of them by broker name."""

    def is_fresh(self) -> bool:
        """Return whether it is known who is master now."""


class GuardedSets(Protocol):
    """The broker sets that the guard is at."""

    @property
    def waiting(self) -> int:
        """Sets that wait for a run."""

    @property
    def running(self) -> int:
        """Sets with a run."""


class FollowedHolders(Protocol):
    """The holders of queues at brokers that are followed."""

    @property
    def clusters(self) -> Mapping[str, HeldCluster]:
        """By name of the cluster, what is known of its holders."""

    @property
    def left_out(self) -> int:
        """How many declared groups are not polled."""


class MirroredSets(Protocol):
    """The mirrors of broker sets."""

    def statuses(self) -> list[MirrorStatus]:
        """Return how old the mirror of each set is."""

    def absent_since(self, set_name: SetName) -> int | None:
        """Return since when nobody shows a set; None if somebody does."""


class BrokerSources(Protocol):
    """What a manager has at brokers."""

    @property
    def following(self) -> FollowedSets:
        """Who is master."""

    @property
    def mirroring(self) -> MirroredSets:
        """The mirrors."""

    @property
    def guarding(self) -> GuardedSets:
        """The guard."""

    @property
    def holding(self) -> FollowedHolders:
        """The holders of locks."""


class OffsetMetricSources(ProcessSources, frozen=True, kw_only=True):
    """Everything that is read."""

    counters: OffsetCounters
    service: OffsetService
    locks: LockService
    store: WriteBehind
    #: None where no broker is followed.
    at_brokers: BrokerSources | None


class OffsetMetrics(HttpServerMetrics):
    """Reads all families of the catalogue."""

    def __init__(self, sources: OffsetMetricSources) -> None:
        super().__init__(catalogue.SERVER, sources)
        self._sources = sources

    def own_values(self) -> Iterator[tuple[MetricFamily, Values] | None]:
        """Yield what there is of the role, of offsets and of the store."""
        service, store, counters = self._sources.service, self._sources.store, self._sources.counters
        role, table = service.role, service.table
        serves = role.is_serving
        yield catalogue.ROLE, single(2 if serves else 1 if role.is_leading else 0)
        yield catalogue.LEADER_CHANGES, single(counters.leader_changes)
        yield catalogue.OFFSETS, single(table.count if serves else 0)
        yield catalogue.UNREADABLE_ROWS, single(len(table.unreadable) if serves else 0)
        yield catalogue.RESULTS, counters.results.counts()
        yield catalogue.FREEZES, single(service.freezes.count if serves else 0)
        locks = self._sources.locks.table
        yield catalogue.LOCKS, single(locks.count if serves else 0)
        yield catalogue.LOCK_SESSIONS, single(len(locks.sessions) if serves else 0)
        yield catalogue.LOCK_RESULTS, counters.lock_results.counts()
        yield catalogue.LOCK_SESSIONS_EXPIRED, single(counters.sessions_expired)
        yield catalogue.DIRTY_OFFSETS, single(store.dirty_keys)
        yield catalogue.OLDEST_DIRTY, single(store.oldest_age_ms / 1000)
        yield catalogue.FLUSHED_OFFSETS, single(counters.flushed_offsets)
        yield catalogue.FLUSHED_ROWS, single(counters.flushed_rows)
        yield catalogue.FLUSH_FAILURES, single(counters.flush_failures)
        yield catalogue.COMMITS_REFUSED, single(counters.commits_refused)
        yield catalogue.COMPENSATED_OFFSETS, single(counters.compensated_offsets)
        yield catalogue.STORE_CALLS, counters.store_calls.counts()
        yield from self._brokers()
        yield from self._holders()
        yield from self._mirrored()

    def _brokers(self) -> Iterator[tuple[MetricFamily, Values]]:
        at_brokers, counters = self._sources.at_brokers, self._sources.counters
        sets = [] if at_brokers is None else [*at_brokers.following.sets.values()]
        led = sum(each.master is not None for each in sets)
        yield catalogue.FOLLOWED_SETS, by_label({"yes": led, "no": len(sets) - led}.items())
        yield catalogue.MASTERS_KNOWN, single(int(at_brokers is not None and at_brokers.following.is_fresh()))
        yield catalogue.MASTER_CHANGES, counters.master_changes.counts()
        yield catalogue.RESTORED_QUEUES, counters.restored.counts()
        yield catalogue.UNSIGNED_REQUESTS, counters.unsigned_requests.counts()
        yield from self._guard()

    def _guard(self) -> Iterator[tuple[MetricFamily, Values]]:
        at_brokers, counters = self._sources.at_brokers, self._sources.counters.guard
        yield catalogue.GUARD_RUNS, counters.runs.counts()
        yield catalogue.GUARD_OFFSETS, counters.offsets.counts()
        yield catalogue.GUARD_MEMBER_RESETS, counters.member_resets.counts()
        guarding = None if at_brokers is None else at_brokers.guarding
        running, waiting = (0, 0) if guarding is None else (guarding.running, guarding.waiting)
        yield catalogue.GUARD_SETS, by_label({"running": running, "waiting": waiting}.items())

    def _holders(self) -> Iterator[tuple[MetricFamily, Values]]:
        at_brokers, counters = self._sources.at_brokers, self._sources.counters.holding
        holding = None if at_brokers is None else at_brokers.holding
        mirrors = [] if holding is None else [each.mirror for each in holding.clusters.values()]
        yield catalogue.BROKER_LOCKS_HELD, single(sum(len(each.table) for each in mirrors))
        yield catalogue.BROKER_LOCK_CLIENTS, single(sum(len(each.members) for each in mirrors))
        yield catalogue.BROKER_LOCK_OVERLAPS, single(sum(len(each.overlaps) for each in mirrors))
        yield catalogue.BROKER_LOCK_OVERLAPS_FOUND, single(counters.overlaps)
        yield catalogue.BROKER_LOCK_REPLAYS, counters.replays.counts()
        yield catalogue.BROKER_LOCKS_RELEASED, single(counters.released)
        yield catalogue.HOLDER_QUERY_FAILURES, single(counters.query_failures)
        left_out = {
            "groups": 0 if holding is None else holding.left_out,
            "members": sum(each.members.left_out for each in mirrors),
            "answers": sum(each.table.left_out for each in mirrors),
        }
        yield catalogue.HOLDERS_LEFT_OUT, by_label(left_out.items())

    def _mirrored(self) -> Iterator[tuple[MetricFamily, Values]]:
        at_brokers, counters = self._sources.at_brokers, self._sources.counters.mirror
        mirror = None if at_brokers is None else at_brokers.mirroring
        every = [] if mirror is None else mirror.statuses()
        # One that nobody shows is old, and nobody can do anything about it.
        shown = [each for each in every if mirror is not None and mirror.absent_since(each.set_name) is None]
        states = {"absent": len(every) - len(shown), "stale": sum(each.is_stale for each in shown)}
        fresh = len(every) - sum(states.values())
        yield catalogue.MIRRORED_SETS, by_label((states | {"fresh": fresh}).items())
        yield catalogue.MIRROR_AGE, single(max((each.age_ms or 0 for each in shown), default=0) / 1000)
        yield catalogue.MIRRORED_ENTRIES, single(sum(each.entries for each in every))
        yield catalogue.MIRROR_POLLS, counters.polls.counts()
        yield catalogue.MIRROR_UNUSABLE_ENTRIES, single(counters.unusable_entries)
        yield catalogue.REGRESSIONS, counters.regressions.counts()
        yield catalogue.REGRESSED_MESSAGES, counters.messages_again.counts()
        yield catalogue.MIRROR_STORES, counters.stores.counts()
        yield catalogue.MIRROR_FILE_BYTES, single(counters.file_bytes)

    def own_histograms(self) -> Iterator[tuple[MetricFamily, Histograms]]:
        """Yield how long."""
        yield catalogue.FLUSH_DURATION, {(): self._sources.counters.flush_seconds}
        yield catalogue.GUARD_DURATION, {(): self._sources.counters.guard.seconds}
        yield catalogue.BROKER_LOCK_REPLAY_DURATION, {(): self._sources.counters.holding.replay_seconds}

    def own_guards(self) -> Mapping[MetricFamily, LabelGuard]:
        """Return nothing: no peer names a label."""
        return {}
