"""Requests for committed offsets: answered when what they say is durable, by the manager that leads alone."""

import asyncio
import contextlib

import pytest
from commit_builders import CLUSTER, UNIX_MS, a_row, an_offset
from fakes.background import background_tasks
from fakes.clock import FakeClock
from fakes.leadership_listener import eventually
from fakes.lines import Lines

from history.rows import Moment, RowMaker
from offsets.catalogues import DECLARED
from offsets.commits.events import RESULTS
from offsets.commits.log_file import EmbeddedStore
from offsets.commits.service import OffsetService, Unavailable
from offsets.commits.stored import DELETED_KEPT_MS
from offsets.commits.table import Scope
from offsets.lead import Lead, NotLeading
from serving.logging.logs import Logs, json_line
from serving.telemetry.telemetry import Telemetry
from store.store import ControllerMember, Deposed, OutcomeUnknown, StoreError

BILLING = Scope(CLUSTER, "", group="billing")
ME = ControllerMember(id="one", address="10.0.0.1:9883")


class Recorded(list):
    """Takes the place of the recorder's queue."""

    enqueue = list.append

    def rows(self):
        maker = RowMaker("offsets-1", 1, "offset_manager")
        return [row for recordable in self for row in recordable.rows(maker, Moment(0, 0))]


class Service:
    def __init__(self, store, clock, tasks, lines, recorder):
        self.store, self.clock, self.lines = store, clock, lines
        self.telemetry = Telemetry(Logs(lines, json_line(), clock, {}), DECLARED, recorder)
        self.lead = Lead(clock, self.telemetry.emit)
        self.service = OffsetService(store, self.lead, clock, tasks, self.telemetry.emit, offsets_max=1000)

    async def leads(self):
        self.lead.start(ME)
        await eventually(lambda: self.lead.is_loaded, seconds=10, what="it is loaded")
        return self

    def commit(self, *entries, writer="client-1"):
        return self.service.commit(entries, writer)

    def read(self, queue=0):
        (answer,) = self.service.read([(a_row(), queue)])
        return answer


@contextlib.asynccontextmanager
async def served(folder, recorder=None):
    clock = FakeClock()
    async with background_tasks() as tasks:
        made = Service(EmbeddedStore(folder, clock, tasks, lambda _: None), clock, tasks, Lines(), recorder)
        try:
            yield made
        finally:
            await made.service.close()


@pytest.fixture
async def site(tmp_path):
    async with served(tmp_path) as site:
        yield await site.leads()


def statuses(done):
    return [result.status for result in (done[0] if isinstance(done[1], str) else done.results)]


async def test_entries_are_counted_and_changes_of_operators_are_told_and_recorded(tmp_path):
    rows = Recorded()
    async with served(tmp_path, rows) as site:
        await site.leads()
        await site.commit(an_offset(5), an_offset(-1, 1))
        await site.commit(an_offset(4))
        await site.service.reset([an_offset(2), an_offset(9, 1)], "alice")
        await site.service.delete(BILLING, "bob")
        counted = site.telemetry.counters[RESULTS].counts()
        assert counted["commit", "ok"] == counted["commit", "stale"] == counted["commit", "refused"] == 1
        assert (counted["reset", "ok"], counted["delete", "ok"]) == (2, 2)
        told = [line for line in site.lines.decoded() if line["event"] == "offsets_changed"]
        assert [(line["operation"], line["writer"], line["queues"]) for line in told] == [
            ("reset", "alice", 2),
            ("delete", "bob", 2),
        ]
        reset, deleted = (row.columns for row in rows.rows())
        assert (reset["created"], reset["messages_again"], reset["queues"], reset["failed"]) == (1, 3, 2, 0)
        assert (deleted["removed"], deleted["writer"], deleted["target"]) == (2, "bob", "manager")


async def test_nothing_is_answered_before_it_leads_and_nothing_is_absent_before_it_is_loaded(tmp_path):
    async with served(tmp_path) as site:
        with pytest.raises(NotLeading):
            site.read()
        site.lead.start(ME)
        assert isinstance(site.read(), Unavailable)
        for request in (
            lambda: site.commit(an_offset(1)),
            lambda: site.service.reset([an_offset(1)], "alice"),
            lambda: site.service.delete(BILLING, "alice"),
        ):
            with pytest.raises(Deposed, match="being loaded"):
                await request()
        await eventually(lambda: site.lead.is_loaded, seconds=10, what="it is loaded")
        assert site.read() is None


async def test_load_that_fails_is_tried_again_and_told_once(tmp_path):
    async with served(tmp_path) as site:
        load, failures = site.store.load, []

        async def fails_first(table):
            if len(failures) < 3:
                failures.append(table)
                raise StoreError("the disk is slow")
            await load(table)

        site.store.load = fails_first
        await site.leads()
        assert [line["error"] for line in site.lines.decoded() if line["event"] == "offsets_load_failed"] == [
            "the disk is slow"
        ]
        await site.commit(an_offset(1))


async def test_answer_is_unknown_where_the_lead_has_ended_meanwhile(site):
    work = asyncio.ensure_future(site.commit(an_offset(5)))
    await asyncio.sleep(0)
    site.lead.follows(None)
    with pytest.raises(OutcomeUnknown, match="ceased to lead meanwhile"):
        await work
    with pytest.raises(NotLeading):
        site.read()
    site.lead.leads(None)
    await eventually(lambda: site.lead.is_loaded, seconds=10, what="it is loaded again")
    assert site.read().offset == 5


async def test_operator_whose_answer_is_unknown_is_recorded_as_such(tmp_path):
    rows = Recorded()
    async with served(tmp_path, rows) as site:
        await site.leads()
        work = asyncio.ensure_future(site.service.reset([an_offset(5)], "alice"))
        await asyncio.sleep(0)
        site.lead.follows(None)
        with pytest.raises(OutcomeUnknown):
            await work
        (row,) = rows.rows()
        assert (row.columns["queues"], row.columns["failed"]) == (0, 1)


async def test_deletions_are_forgotten_after_a_week_while_the_manager_leads(site):
    await site.commit(an_offset(5))
    await site.service.delete(BILLING, "alice")
    site.clock.pass_ms(DELETED_KEPT_MS - 1)
    site.service._forget_deleted()
    assert site.read().is_deleted
    site.clock.pass_ms(2)
    site.service._forget_deleted()
    assert site.read() is None
    assert site.clock.unix_ms() > UNIX_MS


async def test_gauges_show_what_is_stored(site):
    await site.commit(an_offset(5), an_offset(5, 1))
    values = {measure.gauge.name: measure.value for measure in site.service.measures()}
    assert values == {"offsets": 2, "unreadable_rows": 0, "dirty_offsets": 0, "oldest_dirty_seconds": 0}
