"""Both kinds of remote stores, opened for tests."""

import contextlib

from fakes.leadership_listener import RecordingListener, eventually

from controller.offsets.storage.embedded_remote import EmbeddedRemote
from controller.offsets.storage.etcd_remote import EtcdRemote
from remoting.clock import SystemClock
from store.etcd.client import EtcdOptions
from store.store import ControllerMember

#: Far longer than any lease: how long a slow machine may take to come to a leader.
SOON_S = 60


@contextlib.asynccontextmanager
async def embedded(folder):
    remote = EmbeddedRemote(folder, SystemClock())
    try:
        yield remote
    finally:
        await remote.close()


@contextlib.asynccontextmanager
async def leading(endpoints, group, *, listener=None, member="m1", **more):
    """Yield a store in etcd whose manager leads."""
    remote = EtcdRemote(EtcdOptions(endpoints=tuple(endpoints), group=group), SystemClock(), **more)
    listener = listener or RecordingListener()
    try:
        remote.join(ControllerMember(id=member, address="10.0.0.1:9880"), listener)
        await eventually(lambda: listener.is_leading, seconds=SOON_S, what=f"{member} leads")
        yield remote
    finally:
        await remote.resign()
        await remote.close()


async def all_rows(remote):
    """Return all rows and what is foreign, in as many pages as it takes."""
    rows, foreign, start = {}, [], None
    while True:
        page = await remote.load_page(start)
        rows |= page.rows
        foreign += page.foreign
        start = page.next
        if start is None:
            return rows, foreign
