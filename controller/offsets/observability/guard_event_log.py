"""Turns what the guard does into log lines, counts and rows."""

from collections import OrderedDict
from itertools import islice
from typing import Final

from controller.offsets.guard.outcomes import Guarded, GuardReport, Outcome
from controller.offsets.guard.rules import Action
from controller.offsets.guard.unreset import UnresetGroup
from controller.offsets.guard_runs.run_log import RUNS_MAX, GuardedGroup, GuardedOffset, GuardRun, RunResult
from controller.offsets.observability import guard_log_events as catalogue
from controller.offsets.observability.guard_counters import GuardCounters
from controller.offsets.recording.guard_rows import GuardRunRows
from controller.offsets.recording.offset_recorder import OffsetRecorder
from serving.logging.events import LogEvent
from serving.logging.logs import Logs

#: So many groups of a run have a line.
GROUPS_MAX: Final = 20
#: What became of an offset that the broker has now, or that the group itself has moved.
_SETTLED: Final = frozenset({Outcome.NOTHING, Outcome.STORED, Outcome.MOVED_ON})


class GuardEventLog:
    """Observes the runs of the guard."""

    def __init__(self, logs: Logs, counters: GuardCounters, recorder: OffsetRecorder) -> None:
        self._logs = logs
        self._counters = counters
        self._recorder = recorder
        #: Of runs that have not ended, by number.
        self._rows: dict[int, GuardRunRows] = {}
        #: By run, groups whose members were sent back, or could not be, that have a line; of the last runs.
        self._lines: OrderedDict[int, int] = OrderedDict()

    def guard_began(self, run: GuardRun) -> None:
        """Add up what is recorded of a run."""
        self._rows[run.number] = GuardRunRows(run.set_name, run.master.address, run.master.master_epoch)

    def guarded(self, run: GuardRun, guarded: Guarded) -> None:
        """Add one offset of it."""
        self._rows[run.number].guarded(run.master.broker_name, guarded)

    def guard_ended(self, run: GuardRun, report: GuardReport) -> None:
        """Count a run and its offsets, and log it with the groups that it has moved."""
        self._count(run, report)
        self._recorder.guard_ended(self._rows.pop(run.number), report)
        if report.failure is not None and run.result is not RunResult.ENDED:
            self._logs.write(
                catalogue.GUARD_RUN_FAILED,
                broker=report.broker_name,
                addr=report.address,
                cause=run.cause.value,
                run=run.number,
                result=run.result.value,
                error=report.failure,
            )
        actions = dict.fromkeys(Action, 0)
        for (action, _, _), count in run.decisions.items():
            actions[action] += count
        self._logs.write(
            catalogue.OFFSETS_GUARDED,
            broker=report.broker_name,
            addr=report.address,
            epoch=run.master.master_epoch,
            cause=run.cause.value,
            run=run.number,
            result=run.result.value,
            writes=run.writes,
            recent=run.is_recent,
            saved_age_ms=run.began_unix_ms - run.moment.unix_ms,
            offsets=sum(actions.values()),
            **{action.value: count for action, count in actions.items()},
            stored=report.outcomes[Outcome.STORED],
            unwritten=sum(count for outcome, count in report.outcomes.items() if outcome not in _SETTLED),
            duration_ms=report.took_ms,
        )
        for kind, (queues, first) in islice(run.groups().items(), GROUPS_MAX):
            self._log_group(run, kind, queues, first)

    def members_reset(self, run: GuardRun, group: UnresetGroup, members: int) -> None:
        """Count members that were sent back, and log it."""
        self._counters.member_resets.add(("sent",))
        self._log_members(catalogue.MEMBERS_RESET, run, group, members=members)

    def members_not_reset(self, run: GuardRun, group: UnresetGroup, error: str) -> None:
        """Count members that could not be sent back, and log it."""
        self._counters.member_resets.add(("refused",))
        self._log_members(catalogue.MEMBERS_NOT_RESET, run, group, error=error)

    def _log_members(self, event: LogEvent, run: GuardRun, group: UnresetGroup, **found: object) -> None:
        """Log what became of a group's members, unless the run has its lines."""
        self._lines[run.number] = self._lines.get(run.number, 0) + 1
        if len(self._lines) > RUNS_MAX:
            self._lines.popitem(last=False)
        if self._lines[run.number] <= GROUPS_MAX:
            self._logs.write(
                event,
                broker=run.master.broker_name,
                run=run.number,
                group=group.group,
                topics=sorted(group.topics),
                **found,
            )

    def _count(self, run: GuardRun, report: GuardReport) -> None:
        self._counters.runs.add((run.cause.value, run.result.value))
        if run.result is not RunResult.NOT_DECIDED:
            self._counters.seconds.observe(report.took_ms / 1000)
        for (action, reason, outcome), count in run.decisions.items():
            self._counters.offsets.add((action.value, reason.value, outcome.value), count)

    def _log_group(self, run: GuardRun, kind: GuardedGroup, queues: int, first: GuardedOffset) -> None:
        self._logs.write(
            catalogue.GROUP_GUARDED,
            broker=run.master.broker_name,
            run=run.number,
            group=kind.group,
            topic=kind.topic,
            action=kind.action.value,
            reason=kind.reason.value,
            outcome=kind.outcome.value,
            queues=queues,
            queue_id=first.queue_id,
            saved=first.saved,
            old_offset=first.shown,
            new_offset=first.offset,
        )
