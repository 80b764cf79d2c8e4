"""What the paths about repairs answer: the last runs, their queues, and `apply`. Times are Unix ms, UTC."""

from collections.abc import Sequence
from typing import Final

import msgspec

from offsets.http.commits import refusals
from offsets.lead import Lead
from offsets.repair.runs import RepairedQueue, Run
from offsets.repair.service import NotApplicable, Repairer
from offsets.sets.following import Following
from serving.http.paths import Parameter, get, post
from serving.http.views import NotFound, StateConflict, ViewRequest, requested_page
from serving.shapes.offsets import (
    ApplyBody,
    RepairedQueueView,
    RepairListing,
    RepairMode,
    RepairQueues,
    RepairView,
)

_DIGITS_MAX: Final = 9
_RUN: Final = Parameter("run", "Number of the run.", {"type": "integer"})
#: Each decides about all offsets of a set.
_APPLIED_MAX: Final = 4
#: Queues in an answer to it; a run lists all of them.
_SHOWN_MAX: Final = 10_000


class RepairViews:
    def __init__(self, repairer: Repairer, lead: Lead, following: Following, mode: RepairMode) -> None:
        self._repairer, self._lead, self._following, self._mode = repairer, lead, following, mode

    @get("/v1/offsets/repairs", refusals=(503,))
    def repairs(self) -> RepairListing:
        """Repairs after changes of masters, with what they wrote or would write; the newest first."""
        self._lead.check()
        runs = [_run_view(run) for run in self._repairer.runs()]
        return RepairListing(self._mode, self._repairer.running, runs)

    @get("/v1/offsets/repairs/{run}", parts=(_RUN,), paged=True, refusals=(404, 503))
    def repair(self, request: ViewRequest) -> RepairQueues:
        """Queues of one run, by group, topic and queue, without those that were right already."""
        self._lead.check()
        run = self._run(request)
        queues = {(queue.group, queue.topic, queue.queue_id): queue for queue in run.queues}
        page = requested_page(sorted(queues), request, tuple[str, str, int])
        return _queues_view(run, [queues[key] for key in page.keys], page.total, page.next_cursor)

    @post("/v1/offsets/repairs/{run}/apply", parts=(_RUN,), refusals=(404, 409, 503), concurrent_max=_APPLIED_MAX)
    async def apply(self, request: ViewRequest, body: ApplyBody) -> RepairQueues:
        """Decide again and write what a run would change; with dryRun only show it."""
        self._lead.check()
        run = self._run(request)
        followed = self._following.sets.get(run.broker_name)
        master = None if followed is None or followed.set_name != run.set_name else followed.master
        try:
            with refusals(body.writer):
                run = await self._repairer.apply(
                    run.number, body.writer, master, allow_back=body.allow_back, is_dry_run=body.dry_run
                )
            return _queues_view(run, run.queues[:_SHOWN_MAX], len(run.queues), None)
        except NotApplicable as error:
            raise StateConflict(str(error)) from error

    def _run(self, request: ViewRequest) -> Run:
        text = request.path["run"]
        number = int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else 0
        if (run := self._repairer.run(number)) is None:
            raise NotFound(
                f"There is no repair run {text[:_DIGITS_MAX]} here: /v1/offsets/repairs lists the last ones."
            )
        return run


def _queues_view(run: Run, queues: Sequence[RepairedQueue], total: int, next_cursor: str | None) -> RepairQueues:
    views = [msgspec.convert(queue, RepairedQueueView, from_attributes=True) for queue in queues]
    return RepairQueues(_run_view(run), views, total, next_cursor)


def _run_view(run: Run) -> RepairView:
    return msgspec.convert(run, RepairView, from_attributes=True)
