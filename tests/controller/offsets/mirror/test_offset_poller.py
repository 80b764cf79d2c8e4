"""Masters on loopback are read again and again."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from fakes.answering_peer import NOTHING, AnsweringPeer, refusal, success
from mirror_builders import BOOT_MS, SET, body_of

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.masters import MirroredMaster, SetName
from controller.offsets.mirror.poller import FAILURES, MirrorPoller, MirrorRuntime, PollerOptions
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, RequestCode

OFFSETS = BrokerRequestCode.GET_ALL_CONSUMER_OFFSET
EPOCHS = RequestCode.GET_BROKER_EPOCH_CACHE
OPTIONS = RequestCode.GET_BROKER_CONFIG
RUNTIME = BrokerRequestCode.GET_BROKER_RUNTIME_INFO
PERIOD_MS = 100
TIMEOUT_MS = 10_000
WAIT_S = 60
KEY = EntryKey("t", "g")


class Master:
    """A broker with offsets; a test changes what it has, and how it answers a code."""

    def __init__(self, set_name=SET):
        self.set_name = set_name
        self.table = {"t@g": {0: 5}}
        self.boot_ms = BOOT_MS
        self.log_max_offset = 900
        self.broker_id = 0
        self.broker_name = set_name.broker_name
        #: Of its log; None for a broker that is not in controller mode.
        self.log_epochs = None
        #: Code -> what it answers instead: a response, or a function.
        self.instead = {}
        self.peer = AnsweringPeer(self)
        self.peer.pause_s = 0

    def __call__(self, code, fields):
        if code in self.instead:
            instead = self.instead[code]
            return instead() if callable(instead) else instead
        return {OFFSETS: self.offsets, EPOCHS: self.epochs, OPTIONS: self.options}.get(code, self.runtime)()

    def offsets(self):
        return success(body_of(self.table))

    def runtime(self):
        return success({"table": {"bootTimestamp": str(self.boot_ms), "commitLogMaxOffset": str(self.log_max_offset)}})

    def options(self):
        return success(f"brokerName={self.broker_name}\n".encode())

    def epochs(self):
        if self.log_epochs is None:
            return refusal(1, "not in controller mode")
        listed = [{"epoch": each, "startOffset": 100 * each} for each in self.log_epochs]
        fields = {"brokerName": self.broker_name, "brokerId": self.broker_id, "epochList": listed, "maxOffset": 900}
        return success(fields)

    def as_master(self, epoch=1):
        return MirroredMaster(self.set_name, self.peer.address, epoch)


class Site:
    """A poller, what it has handed on, and who is master."""

    def __init__(self, tasks, client, timeout_ms):
        self.masters = []
        self.is_fresh = True
        self.changes = []
        self.reports = []
        self.failures = []
        #: Raised in the place of storing what changed.
        self.fault = None
        self.faults = []
        admin = AdminClient(client, AdminLimits(timeout_ms=timeout_ms))
        runtime = MirrorRuntime(
            admin=admin,
            clock=SystemClock(),
            listener=self,
            masters=lambda: self.masters,
            is_fresh=lambda: self.is_fresh,
            tasks=tasks,
        )
        self.poller = MirrorPoller(runtime, PollerOptions(period_ms=PERIOD_MS))

    def set_masters(self, *masters):
        self.masters = masters
        self.poller.masters_changed()

    async def offsets_changed(self, changes):
        if self.fault is not None:
            raise self.fault
        self.changes.append(changes)

    def polled(self, report):
        self.reports.append(report)

    def poll_failed(self, master, error):
        self.failures.append((master.set_name, error))

    def saved(self, set_name=SET):
        mirror = self.poller.mirror_of(set_name)
        return {each.key: dict(each.offsets) for each in mirror.saved.entries() if each is not None}

    def status(self, set_name=SET):
        return next(each for each in self.poller.statuses() if each.set_name == set_name)

    async def polls(self, count, set_name=SET):
        """Wait for so many further readings."""
        wanted = count + self.read_of(set_name)
        await until(lambda: self.read_of(set_name) >= wanted)

    def read_of(self, set_name):
        return sum(each.master.set_name == set_name for each in self.reports)


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def a_site(*masters, timeout_ms=TIMEOUT_MS):
    """Let these masters be read."""
    client = RemotingClient(SystemClock())
    faults = []
    try:
        async with BackgroundTasks(lambda _, error: faults.append(error)) as tasks:
            site = Site(tasks, client, timeout_ms)
            site.faults = faults
            for each in masters:
                await each.peer.open()
            site.set_masters(*(each.as_master() for each in masters))
            polling = asyncio.create_task(site.poller.run())
            try:
                yield site
            finally:
                polling.cancel()
                with suppress(asyncio.CancelledError):
                    await polling
                for each in masters:
                    await each.peer.close()
    finally:
        await client.close()


async def test_what_a_master_has_is_mirrored_and_what_changes_is_handed_on():
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)
        master.table = {"t@g": {0: 7}}
        await site.polls(2)
        assert site.saved() == {KEY: {0: 7}}
        first, second = site.changes
        assert (first.former, first.is_same_run, second.is_same_run) == (None, False, True)
        assert second.moved.advanced == [(KEY, [(0, 5, 7)], b"t@g")]
        assert second.now.log_max_offset == 900
        assert site.poller.left_out == 0
        assert first.now.requested_unix_ms <= first.now.answered_unix_ms <= second.now.requested_unix_ms


async def test_nothing_is_handed_on_for_groups_that_stand_still():
    async with a_site(Master()) as site:
        await site.polls(4)
        assert len(site.changes) == 1
        assert site.reports[-1].body_bytes == len(body_of({"t@g": {0: 5}}))
        assert site.reports[-1].entries == 1


@pytest.mark.parametrize(
    "instead", [refusal(1, "No consumer offset in this broker"), refusal(2), refusal(3), success(b'{"offsetTable":{"')]
)
async def test_refusal_is_no_empty_table_and_the_mirror_grows_old(instead):
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)
        master.instead[OFFSETS] = instead
        await until(lambda: site.failures and site.status().is_stale)
        assert site.saved() == {KEY: {0: 5}}
        assert len(site.changes) == 1
        assert site.status().error is not None
        assert site.status().age_ms > 3 * PERIOD_MS
        assert isinstance(site.failures[0][1], FAILURES)
        master.instead.clear()
        await until(lambda: not site.status().is_stale)
        assert site.status().error is None


async def test_master_that_was_never_read_is_stale_and_has_nothing_saved():
    master = Master()
    master.instead[OFFSETS] = refusal(1)
    async with a_site(master) as site:
        await until(lambda: site.failures)
        assert (site.status().read, site.status().age_ms, site.status().is_stale) == (None, None, True)
        assert site.poller.mirror_of(SET).saved is None


async def test_master_that_hangs_keeps_no_other_waiting():
    other = SetName("DefaultCluster", "broker-b")
    hanging, answering = Master(), Master(other)
    hanging.instead[OFFSETS] = NOTHING
    async with a_site(hanging, answering, timeout_ms=1000 * WAIT_S) as site:
        await site.polls(6, other)
        assert site.failures == []
        assert hanging.peer.count(OFFSETS) == 1


async def test_master_that_hangs_is_a_failure_and_read_again():
    hanging = Master()
    hanging.instead[OFFSETS] = NOTHING
    async with a_site(hanging, timeout_ms=100) as site:
        await until(lambda: len(site.failures) >= 2)
        assert "no answer within 100 ms" in site.status().error


async def test_master_at_whose_address_nobody_listens_is_gone_until_it_is_read_again():
    master = Master()
    async with a_site(master, timeout_ms=100) as site:
        await site.polls(1)
        master.instead[OFFSETS] = NOTHING
        await until(lambda: site.failures)
        assert site.poller.down_since(SET) is None
        await master.peer.close()
        await until(lambda: site.poller.down_since(SET) is not None)
        since_ms, failures = site.poller.down_since(SET), len(site.failures)
        await until(lambda: len(site.failures) > failures + 1)
        assert site.poller.down_since(SET) == since_ms
        master.instead.clear()
        await master.peer.open()
        await site.polls(1)
        assert site.poller.down_since(SET) is None


@pytest.mark.parametrize("instead", [NOTHING, refusal(16), success(b'{"offsetTable":{"')])
async def test_master_that_listens_again_is_not_gone_though_it_cannot_be_read(instead):
    """As one that starts again: it takes resets that nobody here has seen."""
    master = Master()
    async with a_site(master, timeout_ms=100) as site:
        await site.polls(1)
        await master.peer.close()
        await until(lambda: site.poller.down_since(SET) is not None)
        master.instead[OFFSETS] = instead
        await master.peer.open()
        await until(lambda: site.poller.down_since(SET) is None)
        failures = len(site.failures)
        await until(lambda: len(site.failures) > failures + 1)
        assert site.poller.down_since(SET) is None


@pytest.mark.parametrize("is_listening", [True, False])
async def test_that_a_master_is_gone_says_nothing_about_the_next_one_that_cannot_be_read(is_listening):
    lost, elected = Master(), Master()
    elected.instead[OFFSETS] = NOTHING
    async with a_site(lost, timeout_ms=100) as site:
        await site.polls(1)
        await lost.peer.close()
        await until(lambda: site.poller.down_since(SET) is not None)
        await elected.peer.open()
        address = elected.as_master(epoch=2)
        if not is_listening:
            await elected.peer.close()
        failures = len(site.failures)
        site.set_masters(address)
        try:
            await until(lambda: len(site.failures) > failures + 2)
            assert site.poller.down_since(SET) is None
            assert site.poller.mirror_of(SET).saved.read.run.address == lost.peer.address
        finally:
            await elected.peer.close()


async def test_restart_between_two_readings_begins_another_run():
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)
        master.boot_ms, master.table = BOOT_MS + 1, {"t@g": {0: 3}}
        await site.polls(2)
        changes = site.changes[-1]
        assert not changes.is_same_run
        assert (changes.former.run.boot_unix_ms, changes.now.run.boot_unix_ms) == (BOOT_MS, BOOT_MS + 1)
        assert changes.moved.decreased == [(KEY, [(0, 5, 3)], b"t@g")]
        assert len(site.poller.mirror_of(SET).former_runs) == 1


async def test_restart_between_two_requests_is_no_rewind():
    """The master restarts after it was asked when it had started, and before its offsets are read."""
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)

        def restarted():
            master.boot_ms, master.table = BOOT_MS + 1, {"t@g": {0: 3}}
            return master.offsets()

        master.instead[OFFSETS] = restarted
        await site.polls(2)
        assert [each.is_same_run for each in site.changes] == [False, False]


async def test_master_that_starts_again_and_again_is_not_read():
    master = Master()

    def restarted():
        master.boot_ms += 1
        return master.runtime()

    master.instead[RUNTIME] = restarted
    async with a_site(master) as site:
        await until(lambda: site.failures)
        assert "has started again while it was read" in str(site.failures[0][1])
        assert site.changes == []


async def test_master_that_does_not_say_when_it_has_started_is_not_read():
    master = Master()
    master.instead[RUNTIME] = success({"table": {}})
    async with a_site(master) as site:
        await until(lambda: site.failures)
        assert "does not report its bootTimestamp" in str(site.failures[0][1])


async def test_set_whose_role_moved_is_read_at_its_new_master():
    old, new = Master(), Master()
    new.table = {"t@g": {0: 2}}
    async with a_site(old, new) as site:
        site.set_masters(old.as_master(epoch=1))
        await site.polls(1)
        site.set_masters(new.as_master(epoch=2))
        await until(lambda: site.changes[-1].now.run.address == new.peer.address)
        changes = site.changes[-1]
        assert (changes.former.run.master_epoch, changes.now.run.master_epoch) == (1, 2)
        assert changes.moved.decreased == [(KEY, [(0, 5, 2)], b"t@g")]


async def test_answer_of_a_master_that_is_none_any_more_says_nothing():
    old, new = Master(), Master()
    release = asyncio.Event()

    async def late():
        await release.wait()
        return success(body_of({"t@g": {0: 1}}))

    async with a_site(old, new) as site:
        site.set_masters(old.as_master(epoch=1))
        await site.polls(1)
        old.instead[OFFSETS] = late
        before = old.peer.count(OFFSETS)
        await until(lambda: old.peer.count(OFFSETS) > before)
        site.set_masters(new.as_master(epoch=2))
        await until(lambda: not site.poller._plan.is_master(old.as_master(epoch=1)))
        release.set()
        await until(lambda: site.changes[-1].now.run.master_epoch == 2)
        assert [each.now.run.master_epoch for each in site.changes] == [1, 2]
        assert site.changes[-1].moved.is_empty


@pytest.mark.parametrize("epochs", [[], [1, 4], [1, 4, 5]])
async def test_master_that_serves_in_its_epoch_is_read(epochs):
    """An epoch that began where the one before it did is in no list."""
    master = Master()
    master.log_epochs = epochs
    async with a_site(master) as site:
        site.set_masters(master.as_master(epoch=5))
        await until(lambda: site.changes and site.changes[-1].now.run.master_epoch == 5)
        assert master.peer.count(EPOCHS) > 0


@pytest.mark.parametrize(
    "answer",
    [
        {"broker_id": 2, "log_epochs": [1]},
        {"log_epochs": [1, 2]},
        {"log_epochs": [1], "broker_name": "broker-b"},
    ],
    ids=["a slave", "of a later epoch", "of another set"],
)
async def test_table_of_a_broker_that_is_no_master_by_its_own_answer_is_discarded(answer):
    """It was demoted, and has copied the offsets of its new master already."""
    master = Master()
    master.log_epochs = [1]
    async with a_site(master) as site:
        await site.polls(1)
        vars(master).update(answer, table={"t@g": {0: 3}})
        await until(lambda: site.failures)
        assert len(site.changes) == 1
        assert site.saved() == {KEY: {0: 5}}
        assert site.status().error.startswith(f"{master.peer.address} is to be master of {SET} in epoch 1, and reports")


async def test_table_of_a_broker_of_another_name_is_discarded_where_no_epochs_name_it():
    """Two brokers have exchanged their addresses while no NameServer answered."""
    master = Master()
    async with a_site(master) as site:
        site.set_masters(master.as_master(epoch=None))
        await site.polls(3)
        assert master.peer.count(OPTIONS) == 1
        master.broker_name, master.boot_ms, master.table = "broker-b", BOOT_MS + 1, {"t@g": {0: 3}}
        await until(lambda: site.failures)
        assert site.saved() == {KEY: {0: 5}}
        assert site.status().error == (
            f"{master.peer.address} is to be master of {SET}, and is broker-b by its own options (26)"
        )


async def test_broker_that_denies_its_options_is_mirrored_and_not_requested_again():
    master = Master()
    master.instead[OPTIONS] = refusal(16, "no permission")
    async with a_site(master) as site:
        site.set_masters(master.as_master(epoch=None))
        await site.polls(3)
        assert (site.saved(), site.failures, master.peer.count(OPTIONS)) == ({KEY: {0: 5}}, [], 1)


async def test_refusal_to_show_epochs_is_a_failure_where_there_may_be_some():
    master = Master()
    master.instead[EPOCHS] = refusal(2, "busy")
    async with a_site(master) as site:
        await until(lambda: site.failures)
        assert site.changes == []


async def test_nobody_is_read_while_it_is_not_known_who_is_master():
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)
        site.is_fresh = False
        await until(lambda: not site.poller._plan._under_way)
        count = master.peer.count(OFFSETS)
        await until(lambda: site.status().is_stale)
        assert master.peer.count(OFFSETS) == count
        site.is_fresh = True
        await until(lambda: not site.status().is_stale)


async def test_table_that_comes_when_it_is_not_known_any_more_who_is_master_says_nothing():
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)

        def late():
            site.is_fresh = False
            return success(body_of({"t@g": {0: 3}}))

        master.instead[OFFSETS] = late
        await until(lambda: not site.is_fresh and not site.poller._plan._under_way)
        assert site.saved() == {KEY: {0: 5}}
        assert len(site.changes) == 1


async def test_changes_that_could_not_be_stored_are_handed_on_again_and_speak_against_no_broker():
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)
        site.fault = OSError("disk full")
        master.table = {"t@g": {0: 7}}
        await until(lambda: site.faults)
        assert site.saved() == {KEY: {0: 5}}
        assert site.status().error == "what was read could not be stored: OSError('disk full')"
        assert (site.failures, site.poller._plan._failing) == ([], set())
        site.fault = None
        await until(lambda: len(site.changes) == 2)
        assert site.changes[-1].moved.advanced == [(KEY, [(0, 5, 7)], b"t@g")]


async def test_mirror_of_a_set_without_a_master_stays_until_it_is_forgotten():
    master = Master()
    async with a_site(master) as site:
        await site.polls(1)
        site.set_masters()
        await until(lambda: site.status().is_stale)
        assert site.saved() == {KEY: {0: 5}}
        site.poller.forget(SET)
        assert site.poller.statuses() == []
        assert site.poller.mirror_of(SET) is None
