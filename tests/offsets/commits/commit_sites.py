"""Stores of commits in the test's own loop: in one file, or on a real etcd."""

import contextlib

from commit_builders import a_row
from fakes.background import background_tasks
from fakes.leadership_listener import eventually

from offsets.commits.log_file import EmbeddedStore, LogFile
from offsets.commits.table import OffsetTable
from remoting.clock import SystemClock
from store.store import ControllerMember

SOON_S = 60
CLOCK = SystemClock()


class Site:
    """A store with its table, and the events that it told."""

    def __init__(self, store, told):
        self.store, self.told = store, told

    async def load(self):
        self.table = OffsetTable(100_000)
        await self.store.load(self.table)
        self.table.is_loaded = True
        return self

    def offsets(self, row=None):
        """Return what readers see of a row."""
        row = self.table.rows.get(row or a_row())
        return {} if row is None else {queue: value.offset for queue, value in row.queues.items()}

    def told_of(self, kind):
        return [event for event in self.told if isinstance(event, kind)]


@contextlib.asynccontextmanager
async def embedded(folder):
    """A loaded store in one file."""
    told = []
    async with background_tasks() as tasks:
        store = EmbeddedStore(folder, CLOCK, tasks, told.append)
        try:
            yield await Site(store, told).load()
        finally:
            await store.close()


@contextlib.asynccontextmanager
async def on_etcd(folder, etcd, group, *, member="m1", interval_ms=20, through=(), dirty_keys_max=100_000, loaded=True):
    """A loaded write-behind whose manager leads."""
    from offsets.commits.etcd_rows import EtcdRows  # noqa: PLC0415  # they load gRPC
    from offsets.commits.write_behind import WriteBehind  # noqa: PLC0415
    from offsets.etcd_lead import EtcdLead  # noqa: PLC0415
    from store.etcd.client import EtcdOptions  # noqa: PLC0415

    told = []
    async with background_tasks() as tasks:
        lead = EtcdLead(EtcdOptions(endpoints=tuple(etcd.endpoints), group=group), CLOCK, told.append, lambda *_: None)
        lead.start(ControllerMember(id=member, address="10.0.0.1:9883"))
        store = WriteBehind(
            LogFile(folder, "etcd", CLOCK, told.append),
            EtcdRows(lead, CLOCK),
            CLOCK,
            tasks,
            told.append,
            flush_interval_ms=interval_ms,
            dirty_keys_max=dirty_keys_max,
            is_written_through=lambda name: name in through,
        )
        site = Site(store, told)
        site.lead = lead
        try:
            await eventually(lead.is_leading, seconds=SOON_S, what=f"{member} leads")
            yield await site.load() if loaded else site
        finally:
            await store.close()
            await lead.resign()
            await lead.close()
