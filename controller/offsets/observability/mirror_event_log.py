"""Turns what the mirror of brokers' offsets finds into log lines, counts and rows of the history."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from controller.offsets.mirror.changes import RefusedOffsets
from controller.offsets.mirror.masters import MirroredMaster, SetName
from controller.offsets.mirror.regressions import UNWANTED, Regression, RegressionCause
from controller.offsets.observability import mirror_log_events as catalogue
from controller.offsets.observability.mirror_counters import MirrorCounters
from serving.logging.logs import Logs

#: So many groups and topics stand in one line.
_NAMES_MAX: Final = 10
#: A mirror is stale after so many readings that failed.
_FAILURES_OF_STALE: Final = 3


class MirrorEventLog:
    """Observes the mirror and its file; `record` gets what went back in a reading."""

    def __init__(self, logs: Logs, counters: MirrorCounters, record: Callable[[Sequence[Regression]], None]) -> None:
        self._logs = logs
        self._record = record
        self._counters = counters
        #: Readings that failed since the last one that did not.
        self._failing: dict[SetName, int] = {}
        self._store_failures = 0

    # Readings

    def polled(self, set_name: SetName) -> None:
        """Count a reading."""
        self._counters.polls.add(("ok",))
        failures = self._failing.pop(set_name, 0)
        if failures >= _FAILURES_OF_STALE:
            self._logs.write(
                catalogue.MIRROR_FRESH, broker=set_name.broker_name, cluster=set_name.cluster, failures=failures
            )

    def poll_failed(self, master: MirroredMaster, error: Exception) -> None:
        """Count a reading that failed, and log that the mirror is stale."""
        self._counters.polls.add(("failed",))
        name = master.set_name
        failures = self._failing[name] = self._failing.get(name, 0) + 1
        if failures == _FAILURES_OF_STALE:
            self._logs.write(
                catalogue.MIRROR_STALE,
                broker=name.broker_name,
                cluster=name.cluster,
                addr=master.address,
                failures=failures,
                error=str(error),
            )

    def went_back(self, set_name: SetName, regressions: Sequence[Regression]) -> None:
        """Log, count and record what went back in one reading: a line for each cause."""
        self._record(regressions)
        by_cause: dict[RegressionCause, list[Regression]] = {}
        for each in regressions:
            by_cause.setdefault(each.cause, []).append(each)
        for cause, found in by_cause.items():
            again = sum(each.messages_again or 0 for each in found)
            self._counters.regressions.add((cause.value,), len(found))
            self._counters.messages_again.add((cause.value,), again)
            self._logs.write(
                catalogue.OFFSETS_WENT_BACK if cause in UNWANTED else catalogue.OFFSETS_SET_BACK,
                broker=set_name.broker_name,
                cluster=set_name.cluster,
                cause=cause.value,
                queues=len(found),
                messages_again=again,
                groups=_names(each.queue.key.group for each in found),
                topics=_names(each.queue.key.topic for each in found),
            )

    def entries_refused(self, set_name: SetName, refused: Sequence[RefusedOffsets]) -> None:
        """Log and count entries that became unusable."""
        self._counters.unusable_entries += len(refused)
        self._logs.write(
            catalogue.OFFSETS_REFUSED,
            broker=set_name.broker_name,
            cluster=set_name.cluster,
            entries=len(refused),
            first=refused[0].key,
            error=refused[0].reason,
        )

    def set_dropped(self, set_name: SetName, absent_since_unix_ms: int) -> None:
        """Log that nothing is kept of a set any more."""
        self._failing.pop(set_name, None)
        self._logs.write(
            catalogue.MIRRORED_SET_DROPPED,
            broker=set_name.broker_name,
            cluster=set_name.cluster,
            absent_since_unix_ms=absent_since_unix_ms,
        )

    # The files

    def earlier_resets_unknown(self, problems: Sequence[str]) -> None:
        """Log that operations of earlier processes cannot be read."""
        self._logs.write(catalogue.EARLIER_RESETS_UNKNOWN, operations=len(problems), error=problems[0])

    def loaded(self, sets: int, entries: int, regressions: int, duration_ms: int) -> None:
        """Log what was there."""
        self._logs.write(
            catalogue.MIRROR_LOADED, sets=sets, entries=entries, regressions=regressions, duration_ms=duration_ms
        )

    def began_without_file(self) -> None:
        """Log that nothing of an earlier process is known."""
        self._logs.write(catalogue.MIRROR_BEGAN_WITHOUT_FILE)

    def moved_aside(self, error: str) -> None:
        """Log that the mirror begins anew."""
        self._logs.write(catalogue.MIRROR_MOVED_ASIDE, error=error)

    def stored(self, file_bytes: int) -> None:
        """Count a write."""
        self._counters.stores.add(("ok",))
        self._counters.file_bytes = file_bytes
        if self._store_failures:
            self._logs.write(catalogue.MIRROR_STORED_AGAIN, failures=self._store_failures)
            self._store_failures = 0

    def clock_leapt(self, leap_ms: int) -> None:
        """Log that the clock has gone ahead."""
        self._logs.write(catalogue.MIRROR_CLOCK_LEAPT, leap_ms=leap_ms)

    def clock_set_back(self, sets: int) -> None:
        """Log that moments of a time to come are not kept."""
        self._logs.write(catalogue.MIRROR_CLOCK_SET_BACK, sets=sets)

    def store_failed(self, error: str) -> None:
        """Count a write that failed, and log the first one."""
        self._counters.stores.add(("failed",))
        self._store_failures += 1
        if self._store_failures == 1:
            self._logs.write(catalogue.MIRROR_STORE_FAILED, error=error)


def _names(names: Iterable[str]) -> list[str]:
    return list(islice(dict.fromkeys(names), _NAMES_MAX))
