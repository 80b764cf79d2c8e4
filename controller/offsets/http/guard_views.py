"""What each HTTP path about the guard answers, as values; knows no web server."""

from typing import Final, Protocol

from controller.offsets.config import GuardMode
from controller.offsets.guard_runs.run_log import GuardedOffset, GuardRun, GuardRunLog
from controller.offsets.http import guard_shapes as shapes
from serving.http.views import NotFound, ViewRequest, requested_page

_DIGITS_MAX: Final = 12


class ShownGuard(Protocol):
    """What is shown of the guard."""

    @property
    def waiting(self) -> int:
        """Sets that wait for a run."""

    @property
    def running(self) -> int:
        """Sets with a run."""

    @property
    def runs(self) -> GuardRunLog:
        """What the last runs have done."""


class GuardViews:
    """One method per path."""

    def __init__(self, guarding: ShownGuard | None, mode: GuardMode) -> None:
        """Take the guard; None where no brokers are followed."""
        self._guarding = guarding
        self._mode = mode

    def guard_runs(self, _: ViewRequest) -> shapes.GuardListing:
        """Return the last runs."""
        guarding = self._guarding
        return shapes.GuardListing(
            mode="off" if guarding is None else self._mode,
            running=0 if guarding is None else guarding.running,
            waiting=0 if guarding is None else guarding.waiting,
            runs=[] if guarding is None else [_run_view(each) for each in guarding.runs.runs()],
        )

    def guard_run(self, request: ViewRequest) -> shapes.GuardRunOffsets:
        """Return a page of the offsets of one run."""
        run = self._run(request.path["run"])
        offsets = {(each.group, each.topic, each.queue_id): each for each in run.offsets}
        page = requested_page(sorted(offsets), request, tuple[str, str, int])
        return shapes.GuardRunOffsets(
            run=_run_view(run),
            offsets=[_offset_view(offsets[key]) for key in page.keys],
            left_out=run.offsets_left_out,
            next_cursor=page.next_cursor,
        )

    def _run(self, text: str) -> GuardRun:
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else 0
        found = None if self._guarding is None else self._guarding.runs.run(number)
        if found is None:
            raise NotFound(
                f"There is no run {text[:_DIGITS_MAX]} of the guard: /v1/offsets/guard lists the last ones of this "
                "process."
            )
        return found


def _run_view(run: GuardRun) -> shapes.GuardRunView:
    report = run.report
    assert report is not None, "only runs that have ended are shown"
    return shapes.GuardRunView(
        run=run.number,
        cluster=run.set_name.cluster,
        broker_name=run.set_name.broker_name,
        address=run.master.address,
        master_epoch=run.master.master_epoch,
        cause=run.cause,
        result=run.result,
        began_unix_ms=run.began_unix_ms,
        duration_ms=report.took_ms,
        saved_unix_ms=run.moment.unix_ms,
        recent=run.is_recent,
        writes=run.writes,
        counts=[
            shapes.GuardCount(action, reason, outcome, count)
            for (action, reason, outcome), count in sorted(run.decisions.items())
        ],
        error=report.failure or "",
    )


def _offset_view(offset: GuardedOffset) -> shapes.GuardedOffsetView:
    return shapes.GuardedOffsetView(
        group=offset.group,
        topic=offset.topic,
        queue_id=offset.queue_id,
        action=offset.action,
        reason=offset.reason,
        outcome=offset.outcome,
        saved=offset.saved,
        old_offset=offset.shown,
        new_offset=offset.offset,
        detail=offset.detail,
    )
