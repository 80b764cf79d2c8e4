"""A process that keeps offsets as the offset manager does, and commits to itself; printed: what it has acknowledged.

Arguments: a folder, the flush interval in ms, and where the remote store is: nothing for a file, or endpoints of etcd.
Ends by SIGTERM, which flushes all first.
"""

import asyncio
import signal
import sys
from pathlib import Path

from fakes.leadership_listener import RecordingListener, eventually
from stored_offset_builders import a_commit

from controller.offsets.storage.embedded_remote import EmbeddedRemote
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.write_behind import WriteBehind
from controller.offsets.storage.write_behind_options import WriteBehindOptions
from remoting.background_tasks import BackgroundTasks
from remoting.clock import SystemClock
from store.store import ControllerMember, StoreError

CALLERS = 4
QUEUES = 10
CLOCK = SystemClock()


def tell(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def opened(folder, endpoints):
    if not endpoints:
        return EmbeddedRemote(folder / "remote", CLOCK)
    from controller.offsets.storage.etcd_remote import EtcdRemote  # noqa: PLC0415  # it loads gRPC
    from store.etcd.client import EtcdOptions  # noqa: PLC0415

    remote = EtcdRemote(EtcdOptions(endpoints=tuple(endpoints), group="killed"), CLOCK)
    listener = RecordingListener()
    remote.join(ControllerMember(id="m1", address="127.0.0.1:9880"), listener)
    await eventually(lambda: listener.is_leading, seconds=60, what="it leads")
    return remote


async def commit_forever(behind, caller, stopping):
    group = f"group-{caller}"
    offset = max((each.offset for row in behind_rows(behind, group) for each in row.queues.values()), default=0)
    while not stopping.is_set():
        offset += 1
        try:
            await behind.record([a_commit(offset, queue_id, group) for queue_id in range(QUEUES)])
        except StoreError as error:
            tell("refused", caller, offset, error)
            await asyncio.sleep(0.05)
            offset -= 1
        else:
            tell("acknowledged", caller, offset)
        await asyncio.sleep(0.001)


def behind_rows(behind, group):
    return [row for of, row in behind._flusher.rows.items() if of.group == group]


async def main(folder, interval_ms, endpoints):
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    journal = Journal(folder / "journal", CLOCK)
    remote = await opened(folder, endpoints)
    behind = WriteBehind(journal, remote, CLOCK, WriteBehindOptions(flush_interval_ms=interval_ms))
    behind.start(BackgroundTasks(lambda name, error: tell("fault", name, repr(error))))
    await behind.load()
    tell("loaded")
    async with asyncio.TaskGroup() as callers:
        for caller in range(CALLERS):
            callers.create_task(commit_forever(behind, caller, stopping))
    tell("dirty", behind.dirty_keys)
    tell("left", await behind.stop(within_s=30))
    await journal.close()
    if endpoints:
        await remote.resign()
    await remote.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
