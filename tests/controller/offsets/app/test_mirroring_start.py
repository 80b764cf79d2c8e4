"""What the mirror knows of an earlier process: at once, or once the file can be opened."""

import asyncio
import contextlib

import pytest
from fakes.clock import FakeClock
from fakes.leadership_listener import eventually as eventually_true
from fakes.lines import Lines
from mirror_builders import SET, a_read, a_reading

from controller.offsets.app import mirroring as mirroring_module
from controller.offsets.app.mirroring import Mirroring, MirroringParts
from controller.offsets.app.restoring import resets_of
from controller.offsets.config import OffsetManagerConfig
from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.absent_sets import KEPT_MS
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.kept_rewinds import RewindChanges
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import (
    RESET_SENT_MS,
    EarlierResets,
    Regression,
    RegressionCause,
    SetQueue,
)
from controller.offsets.mirror_file import keeper
from controller.offsets.mirror_file.mirror_file import open_mirror
from controller.offsets.mirror_file.updates import MirrorUpdate, SetUpdate
from controller.offsets.observability.mirror_counters import MirrorCounters
from controller.offsets.observability.mirror_event_log import MirrorEventLog
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.restore.operation_file import OperationFile
from controller.offsets.restore.operations import Operation, OperationKind
from controller.offsets.restore.values import PlannedOffset, RestoreStatus
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from serving.logging.logs import Logs, json_line

KEY = EntryKey("t", "g")
RESET_MS = 100_000
NOW_MS = RESET_MS + 60_000


class NoSets:
    """No broker set is followed, so nothing is read."""

    def __init__(self):
        self.listeners, self.sets, self.fresh = [], {}, True

    def masters(self):
        return ()

    def is_fresh(self):
        return self.fresh


@contextlib.asynccontextmanager
async def mirroring(folder, kept=None, following=None):
    """Run the mirror of a manager whose operations are `kept`, until it has what an earlier process knew."""
    clock, client, lines = FakeClock(unix_ms=NOW_MS), RemotingClient(SystemClock()), Lines()
    log = MirrorEventLog(Logs(lines, json_line(), clock, {}), MirrorCounters(), lambda _: None)

    async def no_resets():
        return EarlierResets()

    async with BackgroundTasks(lambda name, error: None) as tasks:
        resets = no_resets if kept is None else lambda: resets_of(kept, clock)
        following = following or NoSets()
        parts = MirroringParts(following, client, tasks, clock, log, leads=lambda: True, earlier_resets=resets)
        found = Mirroring(OffsetManagerConfig(store_path=str(folder)), parts)
        running = [asyncio.ensure_future(each()) for each in found.work()]
        try:
            await eventually(
                lambda: events(lines, "offset_mirror_loaded") + events(lines, "offset_mirror_began_without_file")
            )
            yield found, lines
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await found.close()
            await client.close()


def events(lines, name):
    return [line for line in lines.decoded() if line["event"] == name]


def a_file_of_operations(folder):
    return KeptOperations(OperationFile(folder, FakeClock()), lambda: "127.0.0.1:1")


async def eventually(condition):
    return await eventually_true(condition, seconds=60, what="the mirror is so far")


def an_operation(number, *queues, is_finished=True):
    """Return a restore of an earlier process; each queue: its id, what was shown, what is set, what became of it."""
    return Operation(
        operation_id=f"id-{number}",
        kind=OperationKind.RESTORE,
        writer="alice",
        unix_ms=RESET_MS + number,
        queues=tuple(PlannedOffset(SetQueue(SET, KEY, each), *more) for each, *more in queues),
        is_finished=is_finished,
    )


async def test_what_operators_had_set_back_before_a_restart_is_known_after_it(tmp_path):
    kept = a_file_of_operations(tmp_path)
    restored, ready = RestoreStatus.RESTORED, RestoreStatus.READY
    await kept.keep(an_operation(1, (0, 80, 10, restored), (1, 80, 90, restored), (2, 80, 10, RestoreStatus.REFUSED)))
    await kept.keep(an_operation(2, (0, 80, 20, restored)))
    # The process was killed meanwhile: it may be written.
    await kept.keep(an_operation(3, (3, 80, 30, ready), is_finished=False))
    async with mirroring(tmp_path, kept) as (mirror, _):
        assert mirror.unseen_resets(SET, RESET_MS) == {(KEY, 0): 20, (KEY, 3): 30}
    await kept.close()


async def test_mirror_that_is_opened_late_has_what_went_back_earlier_and_what_was_not_dealt_with(tmp_path, monkeypatch):
    monkeypatch.setattr(keeper, "OPEN_S", 0.02)
    monkeypatch.setattr(keeper, "STORE_S", 0.02)
    earlier, file = BrokerMirror(SET), open_mirror(tmp_path, FakeClock()).file
    earlier.take(a_reading({"t@g": {0: 9}}))
    earlier.take(a_reading({"t@g": {0: 5}}, epoch=2, address="10.0.0.2:10911"))
    regression = Regression(
        queue=SetQueue(SET, KEY, 0),
        cause=RegressionCause.ROLE_CHANGE,
        unix_ms=1000,
        from_offset=9,
        to_offset=5,
        former=a_read(),
        now=a_read(epoch=2),
    )
    update = SetUpdate(saved=earlier.saved, changes=None, former_runs=earlier.former_runs)
    file.store(MirrorUpdate(sets={SET: update}, regressions=[regression]))
    async with mirroring(tmp_path) as (mirror, _):
        assert (list(mirror.regressions.last(10)), mirror.saved(SET)) == ([], None)
        file.close()
        await eventually(lambda: len(mirror.regressions))
        assert list(mirror.regressions.last(10)) == [regression]
        run = mirror.saved(SET).read.run
        assert [each.read.run.master_epoch for each in mirror.saved_before(SET, run)] == [1]


async def test_rewinds_are_known_at_once_and_by_the_next_process(tmp_path):
    broker = BrokerMirror(SET)
    async with mirroring(tmp_path) as (mirror, _):
        for number, table in enumerate(({"t@g": {0: 9}, "u@g": {0: 4}}, {"t@g": {0: 5}})):
            await mirror.offsets_changed(broker.take(a_reading(table, unix_ms=NOW_MS + number)))
        mirror._poller.restore(broker)  # as the poller has it after that
        assert mirror.rewinds(SET) == {(KEY, 0): 9, (EntryKey("u", "g"), 0): 4}
    async with mirroring(tmp_path) as (mirror, _):
        assert mirror.rewinds(SET) == {(KEY, 0): 9, (EntryKey("u", "g"), 0): 4}


async def test_next_process_knows_the_highest_offset_of_a_group_that_went_back_more_than_once(tmp_path):
    """An operator has reset it far, and it went on; a rebalance has committed a little less than before."""
    broker = BrokerMirror(SET)
    async with mirroring(tmp_path) as (mirror, _):
        for number, offset in enumerate((1_000_000, 0, 300_000, 299_998)):
            await mirror.offsets_changed(broker.take(a_reading({"t@g": {0: offset}}, unix_ms=NOW_MS + number)))
        mirror._poller.restore(broker)  # as the poller has it after that
    async with mirroring(tmp_path) as (mirror, _):
        assert mirror.rewinds(SET) == {(KEY, 0): 1_000_000}


async def test_set_that_nobody_has_shown_for_long_leaves_no_rewinds(tmp_path, monkeypatch):
    monkeypatch.setattr(mirroring_module, "LOOK_S", 0.02)
    earlier, file = BrokerMirror(SET), open_mirror(tmp_path, FakeClock()).file
    earlier.take(a_reading({"t@g": {0: 5}}))
    update, absent = SetUpdate(saved=earlier.saved, changes=None), {SET: NOW_MS - KEPT_MS - 1}
    dropped = SetName("c", "dropped")
    rewinds = dict.fromkeys((SET, dropped), RewindChanges({(KEY, 0): 9}))
    file.store(MirrorUpdate(sets={SET: update}, rewinds=rewinds, absent_since_ms=absent))
    file.close()
    following = NoSets()
    following.fresh = False
    async with mirroring(tmp_path, following=following) as (mirror, _):
        await eventually(lambda: mirror.rewinds(SET))
        assert mirror.rewinds(dropped) == {}
        following.fresh = True
        await eventually(lambda: mirror.saved(SET) is None)
        assert mirror.rewinds(SET) == {}


@pytest.mark.parametrize("damage", ["body = x'00'", "kind = 'of-a-later-release'"])
async def test_operation_that_cannot_be_read_leaves_open_where_queues_were_set_and_the_mirror_begins(tmp_path, damage):
    kept = a_file_of_operations(tmp_path)
    await kept.keep(an_operation(1, (0, 80, 10, RestoreStatus.RESTORED)))
    await kept.keep(an_operation(2, (1, 80, 10, RestoreStatus.RESTORED)))
    await kept.keep(an_operation(3, (2, 80, 30, RestoreStatus.RESTORED)))
    kept._file._file.connection.execute(f"UPDATE operations SET {damage} WHERE id = 'id-2'")
    async with mirroring(tmp_path, kept) as (mirror, lines):
        unseen = mirror.unseen_resets(SET, RESET_MS + 2 + RESET_SENT_MS)
        assert [unseen.get((KEY, each)) for each in range(4)] == [0, 0, 30, 0]
        # What is requested later shows all that it has set.
        assert dict(mirror.unseen_resets(SET, RESET_MS + 3 + RESET_SENT_MS)) == {(KEY, 2): 30}
    (line,) = events(lines, "earlier_resets_unknown")
    assert line["operations"] == 1
    assert "operation id-2" in line["error"]
    await kept.close()


async def test_file_of_operations_that_cannot_be_read_at_all_leaves_open_what_was_set_until_now(tmp_path):
    kept = a_file_of_operations(tmp_path)
    kept._file._file.connection.execute("DROP TABLE operations")
    async with mirroring(tmp_path, kept) as (mirror, lines):
        assert mirror.unseen_resets(SET, NOW_MS).get((KEY, 0)) == 0
        assert len(events(lines, "earlier_resets_unknown")) == 1
    await kept.close()


@pytest.mark.parametrize("is_first", [True, False])
async def test_operations_without_queues_at_brokers_reset_nothing_there(tmp_path, is_first):
    kept = a_file_of_operations(tmp_path)
    if not is_first:
        await kept.keep(an_operation(1))
    found = await resets_of(kept, FakeClock())
    assert (found.known, found.unknown_unix_ms) == ([], None)
    await kept.close()
