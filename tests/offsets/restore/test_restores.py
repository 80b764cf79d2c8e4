"""Restores, undoes, imports and lags over brokers in memory."""

from types import SimpleNamespace

import pytest
from repair_site import NAME, Group, Site

from offsets.proof import LogBefore
from offsets.restore.lag import LAGS_MAX, LagQueue, LagReader, LagsTooOften
from offsets.restore.operations import NoSuchOperation, OperationKind, Operations
from offsets.restore.restorer import AnotherRuns, Change, NoSuchSet, Restorer, RestoreRefused, Scope
from offsets.restore.rules import Options
from offsets.values import QueueKey
from remoting.protocol.codes import BrokerRequestCode
from serving.shapes.offsets import JumpCause, Status

COMMIT = BrokerRequestCode.UPDATE_CONSUMER_OFFSET
ALL = Scope("c")
KEY = QueueKey("g", "t", 0)


class ReadSite(Site):
    """With a restorer over its readings."""

    def __init__(self, folder, **values):
        super().__init__(folder, **values)
        self.jumped = []
        self.operations = Operations(folder / "operations", lambda: "10.0.0.9:9883", self.told.append)
        # A broker of 4.9 makes the queue that it is asked for by 30 and 31; here 202 lists them all.
        self.restorer = Restorer(
            self.admin(), self, self, self.operations, self.clock, self.told.append, lambda: self.is_leading
        )

    # What a restorer asks of readings

    def at(self, _, unix_ms):
        found = [reading for reading in self.readings if reading.ended_unix_ms <= unix_ms]
        return found[-1] if found else None

    def moments(self, _):
        return [reading.ended_unix_ms for reading in self.readings]

    def log_before(self, reading):
        return LogBefore(self.fingerprints, reading.second_end, reading.epochs), list(self.fingerprints)

    def jumps(self, limit, is_wanted):
        return [jump for jump in self.jumped if is_wanted(jump)][:limit]

    def known_before(self, master, now_ms):
        former = [reading for reading in self.readings if reading.boot_unix_ms != master.boot_unix_ms]
        known = super().known_before(master, now_ms)
        return known if former and known is not None else None

    def is_master(self, master):
        return self.knows_master and master == self.followed

    async def restore(self, unix_ms=None, scope=ALL, *, dry_run=False, **options):
        change = Change(OperationKind.RESTORE, "ann", Options(**options), dry_run)
        return await self.restorer.restore(change, scope, unix_ms)

    async def undo(self, operation_id, *, forced=False, **options):
        operation = await self.operations.find(operation_id)
        change = Change(OperationKind.UNDO, "bob", Options(**options), undoes=operation_id)
        return await self.restorer.undo(change, operation, is_forced=forced)

    @property
    def now(self):
        return self.clock.unix_ms()


@pytest.fixture(params=[False, True], ids=["static", "epochs"])
def site(request, tmp_path):
    site = ReadSite(tmp_path, has_epochs=request.param)
    site.send(100)
    site.commit(40)
    site.read()
    site.send(50)
    site.commit(120)
    site.read()
    return site


def statuses(done):
    return [queue.status for queue in done.queues]


async def test_a_dry_run_shows_and_writes_nothing(site):
    done = await site.restore(site.readings[0].ended_unix_ms, dry_run=True, allow_back=True)
    (queue,) = done.queues
    assert (queue.status, queue.old, queue.new, queue.messages_again) == (Status.WOULD_CHANGE, 120, 40, 80)
    assert (done.operation_id, COMMIT in site.codes) == ("", False)
    assert await site.operations.last() == []


async def test_going_back_needs_the_word_of_the_operator(site):
    done = await site.restore(site.readings[0].ended_unix_ms)
    assert statuses(done) == [Status.NOT_PROVED]
    assert "allowBack" in done.queues[0].why
    done = await site.restore(site.readings[0].ended_unix_ms, allow_back=True)
    assert statuses(done) == [Status.DONE]
    assert (site.a.offset(*KEY), site.a.pending[KEY]) == (40, 40)


async def test_what_was_restored_is_undone_and_that_too(site):
    done = await site.restore(site.readings[0].ended_unix_ms, allow_back=True)
    site.a.pending.clear()
    undone = await site.undo(done.operation_id)
    assert (statuses(undone), site.a.offset(*KEY)) == ([Status.DONE], 120)
    site.a.pending.clear()
    again = await site.undo(undone.operation_id)
    assert (statuses(again), site.a.offset(*KEY)) == ([Status.DONE], 40)
    kinds = [(operation.kind, operation.undoes) for operation in await site.operations.last()]
    assert kinds == [("undo", undone.operation_id), ("undo", done.operation_id), ("restore", "")]


async def test_an_undo_leaves_a_group_that_has_moved_since_unless_it_is_forced(site):
    done = await site.restore(site.readings[0].ended_unix_ms, allow_back=True)
    site.a.pending.clear()
    site.commit(45)
    assert statuses(await site.undo(done.operation_id)) == [Status.NOT_PROVED]
    assert statuses(await site.undo(done.operation_id, forced=True)) == [Status.DONE]
    assert site.a.offset(*KEY) == 120


async def test_an_undo_proves_against_the_log_of_its_operation(site):
    done = await site.restore(site.readings[0].ended_unix_ms, allow_back=True)
    site.a.pending.clear()
    site.a.remake("t")
    site.send(200)
    undone = await site.undo(done.operation_id, forced=True)
    assert statuses(undone) == [Status.NOT_PROVED]
    assert "made anew" in undone.queues[0].why


async def test_forward_is_proved_by_the_reading(site):
    site.commit(20)
    assert statuses(await site.restore(site.now)) == [Status.DONE]
    assert site.a.offset(*KEY) == 120


async def test_a_topic_that_was_made_anew_is_not_proved(site):
    site.a.remake("t")
    site.send(200)
    site.commit(20)
    done = await site.restore(site.now)
    assert statuses(done) == [Status.NOT_PROVED]
    assert statuses(await site.restore(site.now, allow_unproved=True)) == [Status.DONE]


async def test_a_lost_tail_is_not_proved(tmp_path):
    site = ReadSite(tmp_path)
    site.send(100)
    site.copy()
    site.commit(90)
    site.read()
    site.send(50)
    site.commit(140)
    site.read()
    site.send(1)
    site.read()
    site.promote(site.b)
    site.send(100)
    site.commit(20)
    done = await site.restore(site.readings[-1].ended_unix_ms)
    assert statuses(done) == [Status.NOT_PROVED]
    assert statuses(await site.restore(site.readings[0].ended_unix_ms)) == [Status.DONE]
    assert site.b.offset(*KEY) == 90


async def test_former_is_what_the_last_master_had(site):
    # Without epochs a reading is proved by the next one.
    site.send(1)
    site.read()
    site.copy()
    site.promote(site.b)
    done = await site.restore(None)
    assert (statuses(done), site.b.offset(*KEY)) == ([Status.DONE], 120)


async def test_former_needs_a_former_master(site):
    done = await site.restore(None)
    assert [problem.reason for problem in done.problems] == ["there is no reading of a former master"]


async def test_what_somebody_has_set_since_stays_unless_told(site):
    jump = SimpleNamespace(
        unix_ms=site.now, cluster="c", broker_name="broker-a", group="g", topic="t", cause=JumpCause.RESET
    )
    jump.queue_count, jump.queues = 1, [SimpleNamespace(queue_id=0)]
    site.jumped.append(jump)
    site.commit(20)
    assert statuses(await site.restore(site.readings[-1].ended_unix_ms)) == [Status.NOT_PROVED]
    assert statuses(await site.restore(site.readings[-1].ended_unix_ms, over_resets=True)) == [Status.DONE]


@pytest.mark.parametrize(
    ("group", "options", "status"),
    [
        pytest.param(Group(pops=True), {}, Status.NOT_PROVED, id="pops"),
        pytest.param(Group(is_online=False), {}, Status.NOT_PROVED, id="offline"),
        pytest.param(Group(is_online=False), {"pulls": True}, Status.DONE, id="offline, said to pull"),
    ],
)
async def test_a_group_that_may_pop_is_named_apart(site, group, options, status):
    site.groups["g"] = group
    site.commit(20)
    assert statuses(await site.restore(site.now, **options)) == [status]


async def test_a_scope_names_whose_offsets(site):
    site.groups["h"] = Group()
    site.commit(30, group="h")
    site.commit(10, group="CID_RMQ_SYS_X")
    site.read()
    site.commit(20)
    site.commit(20, group="h")
    done = await site.restore(site.now, Scope("c", group="h"))
    assert [queue.group for queue in done.queues] == ["h"]
    with pytest.raises(NoSuchSet):
        await site.restore(site.now, Scope("other"))
    done = await site.restore(site.readings[0].ended_unix_ms - 1)
    assert "no reading of that moment" in done.problems[0].reason


@pytest.mark.parametrize("what", ["is_leading", "knows_master"])
async def test_nothing_is_written_by_who_does_not_lead_or_to_who_is_no_master(site, what):
    site.commit(20)
    setattr(site, what, False)
    done = await site.restore(site.now)
    assert (statuses(done), site.a.offset(*KEY)) == ([Status.FAILED], 20)


async def test_nothing_is_written_after_a_pause(site):
    site.commit(20)
    site.before = lambda _, request: site.clock.pass_ms(60_000) if request.code == COMMIT else None
    done = await site.restore(site.now)
    assert (statuses(done), site.a.offset(*KEY)) == ([Status.FAILED], 20)


async def test_an_operation_that_cannot_be_kept_writes_nothing(site):
    site.commit(20)
    (site.folder / "operations").write_bytes(b"no folder")
    with pytest.raises(Exception, match="cannot write"):
        await site.restore(site.now)
    assert site.a.offset(*KEY) == 20


async def test_a_write_without_an_answer_is_listed_and_can_be_undone(site):
    site.commit(20)
    site.lost = {COMMIT}
    done = await site.restore(site.now)
    assert statuses(done) == [Status.FAILED]
    site.lost = set()
    site.a.pending.clear()
    undone = await site.undo(done.operation_id)
    assert (statuses(undone), site.a.offset(*KEY)) == ([Status.DONE], 20)


async def test_one_operation_runs_at_a_time(site):
    site.commit(20)
    refused = []

    async def another():
        with pytest.raises(AnotherRuns):
            await site.restore(site.now)
        refused.append(True)

    site.before = lambda *_: None
    async with site.restorer._turn:
        await another()
    assert refused


async def test_an_unknown_operation_says_who_may_have_it(site):
    with pytest.raises(NoSuchOperation, match=r"10\.0\.0\.7:1"):
        await site.operations.find("abc@10.0.0.7:1")


async def test_imported_offsets_are_not_proved_unless_told(site):
    change = Change(OperationKind.IMPORT, "ann", Options())
    done = await site.restorer.write(change, {NAME: {KEY: 140}})
    assert statuses(done) == [Status.NOT_PROVED]
    change = change._replace(options=Options(allow_unproved=True))
    assert statuses(await site.restorer.write(change, {NAME: {KEY: 140}})) == [Status.DONE]
    with pytest.raises(RestoreRefused, match="more than 10000"):
        await site.restorer.write(change, {NAME: {QueueKey("g", "t", queue): 1 for queue in range(10_001)}})


async def test_ten_thousand_offsets_are_restored_in_seconds(tmp_path):
    site = ReadSite(tmp_path)
    site.send(200)
    for number in range(2_500):
        site.groups[f"g{number}"] = Group(is_online=False)
        for queue_id in range(4):
            site.commit(0, group=f"g{number}", queue_id=queue_id)
    for queue_id in range(1, 4):
        site.send(10, queue_id=queue_id)
    for number in range(2_500):
        for queue_id in range(4):
            site.commit(5, group=f"g{number}", queue_id=queue_id)
    site.read()
    for number in range(2_500):
        for queue_id in range(4):
            site.commit(2, group=f"g{number}", queue_id=queue_id)
    done = await site.restore(site.now, pulls=True)
    assert set(statuses(done)) == {Status.DONE}
    assert len(done.queues) == 10_000


async def lag(site, managed=None, topic=None):
    found = await LagReader(site.admin(), site.clock).read(site.sets.values(), "g", topic, managed or {})
    return {LagQueue(row.topic, row.broker_name, row.queue_id): (row.lag, row.reason) for row in found.queues}, found


async def test_the_lag_of_a_group_in_each_of_its_queues(site):
    found, _ = await lag(site)
    assert found == {LagQueue("t", "broker-a", 0): (30, "")}
    site.send(5, queue_id=1)
    found, reading = await lag(site)
    assert found[LagQueue("t", "broker-a", 1)][0] == "unknown"
    assert "no offset" in found[LagQueue("t", "broker-a", 1)][1]
    found, _ = await lag(site, {LagQueue("t", "broker-a", 1): 2, LagQueue("t", "broker-x", 0): 2})
    assert found[LagQueue("t", "broker-a", 1)] == (3, "")
    assert "not followed" in found[LagQueue("t", "broker-x", 0)][1]
    site.a.is_alive = False
    found, reading = await lag(site)
    assert (found, "nobody listens" in reading.unavailable["broker-a"]) == ({}, True)


async def test_lags_are_not_read_as_often_as_anybody_likes(site):
    reader = LagReader(site.admin(), site.clock)
    for _ in range(LAGS_MAX):
        await reader.read([], "g", None, {})
    with pytest.raises(LagsTooOften):
        await reader.read([], "g", None, {})
    site.clock.pass_ms(1_000)
    await reader.read([], "g", None, {})
