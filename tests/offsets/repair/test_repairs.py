"""Repairs over brokers in memory: what is written after a promotion, in which mode, and what becomes of it."""

import asyncio
from types import SimpleNamespace

import pytest
from repair_site import NAME, Group, Site

from history.rows import Moment, RowMaker
from offsets import at_broker
from offsets.repair import service as repairer_module
from offsets.repair.runs import OffsetsLost, OffsetsRepaired, RepairApplied, RepairNotKept, RepairRows
from offsets.repair.service import NotApplicable
from offsets.sets.followed import MasterChange, MasterChangeKind
from remoting.protocol.codes import BrokerRequestCode, RequestCode, ResponseCode
from remoting.protocol.errors import AnswerNotFramed, InvokeTimeout, Refused
from serving.shapes.offsets import Outcome

COMMIT = BrokerRequestCode.UPDATE_CONSUMER_OFFSET
RESET = BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET


@pytest.fixture(params=[False, True], ids=["static", "epochs"])
def site(request, tmp_path):
    return Site(tmp_path, has_epochs=request.param)


def begin(site):
    """Let the manager follow the master before the messages of which a test tells."""
    site.send(1, topic="first")
    site.read()


def read_twice(site, offset=80, copied=50):
    """100 messages, of which the group has committed some; the slave has all of them, and an older offset."""
    if copied is not None:
        site.commit(copied)
        site.commit(copied, at=site.b)
    begin(site)
    site.send(100)
    site.copy()
    site.commit(offset)
    site.read()
    site.send(1)
    site.copy()
    site.read()


def rows_of(event):
    """Return the rows that an event records."""
    return [row for recorded in event.rows() for row in recorded.rows(RowMaker("m", 1, "offset-manager"), Moment(1, 1))]


def outcome(told):
    events = [event for event in told if isinstance(event, OffsetsLost | OffsetsRepaired)]
    assert events
    return SimpleNamespace(**{"problem": None} | events[-1].line(), kind=type(events[-1]))


@pytest.mark.parametrize("copied", [50, None], ids=["an older copy", "no copy"])
async def test_a_promoted_slave_gets_the_offset_of_the_former_master(site, copied):
    read_twice(site, copied=copied)
    site.promote(site.b)
    await site.run(site.repairer())
    assert site.b.offset("g", "t", 0) == 80
    assert outcome(site.told).pushed == 1
    assert site.codes.count(COMMIT) == 1
    assert RESET not in site.codes


async def test_a_report_writes_nothing_and_is_applied_by_the_next_process(site):
    read_twice(site)
    site.promote(site.b)
    first = site.repairer(acts_for=lambda _: False)
    await site.run(first)
    assert site.b.offset("g", "t", 0) == 50
    event = outcome(site.told)
    assert (event.kind, event.would_change, event.messages_again) == (OffsetsLost, 1, 30)
    (run,) = first.runs()
    repaired, whole = rows_of(site.told[-1])
    assert (repaired.columns["event_type"], whole.columns["event_type"]) == ("repaired", "run")
    assert {"run": 1, "would_change": 1, "messages_again": 30}.items() <= whole.columns.items()
    assert [(queue.before, queue.shown, queue.offset) for queue in run.queues] == [(80, 50, 80)]
    assert [measure.value for measure in first.measures()][:2] == [1, 1]

    second = site.repairer(acts_for=lambda _: False)
    await second.load()
    applied = await second.apply(run.number, "ann", site.followed)
    assert site.b.offset("g", "t", 0) == 80
    assert (applied.applied_by, applied.counts) == ("ann", {"pushed": 1})
    assert isinstance(site.told[-1], RepairApplied)
    (row,) = rows_of(site.told[-1])
    assert (row.family.name, row.columns["event_type"]) == ("offset_change_by_operator", "repair")
    assert {"writer": "ann", "change_id": str(run.number), "queues": 1, "messages_skipped": 30}.items() <= (
        row.columns.items()
    )
    assert [measure.value for measure in second.measures()][:2] == [0, 0]


async def test_what_a_group_committed_meanwhile_stays_when_a_run_is_applied(site):
    read_twice(site)
    site.promote(site.b)
    repairer = site.repairer(acts_for=lambda _: False)
    await site.run(repairer)
    site.commit(30)
    applied = await repairer.apply(repairer.runs()[0].number, "ann", site.followed)
    assert site.b.offset("g", "t", 0) == 30
    assert applied.counts == {"right already": 1}


async def test_a_group_that_went_on_behind_a_lost_end_since_the_run_stays_unless_it_may_go_back(site):
    lose_a_tail(site)
    repairer = site.repairer(acts_for=lambda _: False)
    await site.run(repairer)
    (run,) = repairer.runs()
    assert (run.queues[0].messages_skipped, run.queues[0].messages_again) == (35, 0)
    site.send(500)
    site.commit(400)
    site.groups["g"] = Group(positions={("t", 0): 410})
    (seen,) = (await repairer.apply(run.number, "ann", site.followed, is_dry_run=True)).queues
    assert (seen.outcome, "allowBack" in seen.why, seen.offset) == (Outcome.NOT_PROVED, True, 60)
    (seen,) = (await repairer.apply(run.number, "ann", site.followed, is_dry_run=True, allow_back=True)).queues
    assert (seen.outcome, seen.messages_skipped, seen.messages_again) == (Outcome.WOULD_CHANGE, 35, 305)
    applied = await repairer.apply(run.number, "ann", site.followed)
    assert (applied.counts, site.b.pending) == ({"not proved": 1}, {})
    # It was decided: nothing waits any more.
    assert [measure.value for measure in repairer.measures()][:2] == [0, 0]

    await repairer.apply(run.number, "ann", site.followed, allow_back=True)
    assert site.b.pending.pop(("g", "t", 0)) == 60
    site.commit(70)
    site.groups["g"] = Group(positions={("t", 0): 70})
    # A second time it is sent back no more than any other.
    for _ in range(2):
        await repairer.apply(run.number, "ann", site.followed)
    assert site.b.pending == {}


async def test_what_waits_at_a_master_that_is_gone_is_not_counted(site):
    read_twice(site)
    site.promote(site.b)
    repairer = site.repairer(acts_for=lambda _: False)
    await site.run(repairer)
    assert [measure.value for measure in repairer.measures()][:2] == [1, 1]
    repairer.changed(MasterChange(MasterChangeKind.LOST, NAME, site.followed, None, 2))
    assert [measure.value for measure in repairer.measures()][:2] == [0, 0]


async def test_a_run_that_is_told_again_once_members_come_counts_once(site, monkeypatch):
    monkeypatch.setattr(repairer_module, "LOOK_S", 0.01)
    read_twice(site)
    site.groups["g"] = Group(is_online=False)
    site.promote(site.b)
    repairer = site.repairer()
    await site.run(repairer)
    site.groups["g"] = Group()
    for _ in range(200):
        await asyncio.sleep(0.01)
        if repairer.running == 0:
            break
    assert sum(isinstance(event, OffsetsLost | OffsetsRepaired) for event in site.told) == 2
    counts = [
        (count.counter.name, count.labels, count.amount)
        for event in site.told
        for count in event.counted()
        if count.amount
    ]
    assert counts == [("repair_runs", ("complete",), 1), ("repaired_offsets", ("pushed",), 1)]


async def test_a_run_of_a_former_master_is_not_applied(site):
    read_twice(site)
    site.promote(site.b)
    repairer = site.repairer(acts_for=lambda _: False)
    await site.run(repairer)
    number = repairer.runs()[0].number
    site.a.is_alive = True
    site.promote(site.a)
    with pytest.raises(NotApplicable, match="newest run"):
        await repairer.apply(number, "ann", site.followed)
    with pytest.raises(NotApplicable, match="no run 77"):
        await repairer.apply(77, "ann", site.followed)


def lose_a_tail(site):
    """Promote the slave with 60 of 100 messages, at which the group goes on behind them."""
    site.send(60)
    site.copy()
    site.commit(50, at=site.b)
    site.commit(55)
    site.read()
    site.read()
    site.send(40)
    site.commit(90)
    site.read()
    site.send(1)
    site.read()
    site.promote(site.b)
    site.commit(95, at=site.b)
    site.groups["g"] = Group(positions={("t", 0): 95})
    site.send(30)


async def test_a_run_is_not_applied_at_its_master_once_another_one_led_in_between(site):
    read_twice(site)
    site.promote(site.b)
    repairer = site.repairer(acts_for=lambda _: False)
    await site.run(repairer)
    (run,) = repairer.runs()
    for broker, name in ((site.a, "a"), (site.b, "b")):
        site.told.clear()
        broker.boot()
        site.promote(broker)
        await site.run(repairer)
        assert len(repairer.runs()) >= 2, name
    with pytest.raises(NotApplicable, match=f"changed since run {run.number}: look at the newest run"):
        await repairer.apply(run.number, "alice", site.followed, is_dry_run=True)


async def test_a_run_that_awaits_members_outlives_its_place_in_the_list(site, monkeypatch):
    monkeypatch.setattr(repairer_module, "LOOK_S", 0.02)
    read_twice(site)
    site.groups["g"].is_online = False
    site.promote(site.b)
    repairer = site.repairer()
    await site.run(repairer)
    repairer._runs.clear()  # a hundred other sets had runs
    site.groups["g"].is_online = True
    for _ in range(200):
        await asyncio.sleep(0.01)
        if site.b.offset("g", "t", 0) == 80:
            break
    assert (site.b.offset("g", "t", 0), site.failures) == (80, [])
    await repairer.close()


async def test_a_lost_tail_sends_a_group_back_to_where_the_logs_part(site):
    lose_a_tail(site)
    await site.run(site.repairer())
    assert site.b.offset("g", "t", 0) == 60
    assert site.b.pending["g", "t", 0] == 60
    assert outcome(site.told).set_back == 1
    assert site.parted == [site.b.log.places[60]]


@pytest.mark.parametrize("is_too_long", [False, True], ids=["any bytes", "a length of megabytes"])
@pytest.mark.parametrize("shift", range(3))
async def test_a_lost_tail_shows_where_a_look_falls_into_the_middle_of_a_message(site, shift, is_too_long):
    site.send(55)
    site.copy()
    site.read()
    site.send(5)
    site.copy()
    site.commit(50, at=site.b)
    # These are lost.
    site.send(3)
    site.read()
    site.send(20)
    site.commit(70)
    site.read()
    site.promote(site.b)
    site.uids += 11 + shift
    site.send(60)
    lost = {place for place in site.marks if place >= site.b.log.places[60]}
    assert lost
    assert not any(site.b.log.at(place) for place in lost)

    def before(broker, request):
        if is_too_long and int((request.ext_fields or {}).get("offset", 0)) in lost:
            raise AnswerNotFramed(broker.address, "a frame of 577000000 bytes")

    site.before = before
    await site.run(site.repairer())
    assert site.b.pending["g", "t", 0] == 50
    assert outcome(site.told).set_back == 1


async def test_epochs_do_not_prove_what_a_master_lost_and_wrote_anew_within_one(tmp_path):
    site = Site(tmp_path, has_epochs=True)
    site.groups["g"] = Group(positions={("another", 0): 1})
    site.send(50)
    site.copy()
    site.commit(50)
    site.commit(50, at=site.b)
    site.read()
    site.send(10)
    site.commit(55)
    site.read()
    site.send(10)
    site.copy()
    site.send(30)
    site.commit(80)
    site.read()
    # Its machine loses power, and it is back, in the same epoch, and fails again before it is read.
    site.a.cut_log(site.a.log.places[70])
    site.clock.pass_ms(30_000)
    site.a.boot()
    site.send(50)
    site.copy()
    site.promote(site.b)
    await site.run(site.repairer())
    assert site.b.offset("g", "t", 0) == 55


async def test_an_emptied_store_sends_its_groups_to_its_beginning(tmp_path):
    site = Site(tmp_path)
    read_twice(site)
    site.a.log.cut(0)
    site.a.rebuild()
    site.a.offsets.clear()
    site.clock.pass_ms(1_000)
    site.a.boot()
    site.send(5)
    await site.run(site.repairer(), MasterChangeKind.RESTARTED)
    assert site.a.offset("g", "t", 0) == 0
    assert outcome(site.told).set_back == 1


async def test_a_replica_that_still_has_the_log_from_before_an_emptied_master_goes_on_at_its_end(site):
    read_twice(site)
    _, end = site.b.ends("t", 0)
    site.a.log.cut(0)
    site.a.rebuild()
    site.a.offsets.clear()
    site.clock.pass_ms(1_000)
    site.a.boot()
    site.former_marks, site.marks = site.fingerprints, {}
    site.send(200)
    for offset in (150, 180):
        site.commit(offset)
        site.read()
        site.send(1)
    site.promote(site.b)
    site.send(90)
    # One member goes on where the emptied master had it, another where this log has it.
    site.groups["h"] = Group(positions={("t", 0): 50})
    site.commit(180)
    site.commit(50, group="h")
    repairer = site.repairer()
    await site.run(repairer)
    if not site.has_epochs:
        # A name server alone shows it, and a stranger may have come in between: an operator decides.
        assert (outcome(site.told).would_change, site.b.pending) == (1, {})
        await repairer.apply(repairer.runs()[0].number, "ann", site.followed)
    assert site.b.pending == {("g", "t", 0): end}
    # The messages of the emptied master are in no later log.
    assert site.parted == [0]


@pytest.mark.parametrize("has_epochs", [False, True], ids=["a name server shows it", "the controller elected it"])
async def test_a_stranger_with_the_name_of_a_set_is_written_only_if_it_was_elected(tmp_path, has_epochs):
    site = Site(tmp_path, has_epochs=has_epochs)
    site.send(100)
    site.commit(80)
    site.read()
    site.read()
    site.promote(site.b)
    site.send(90)
    site.commit(85)
    await site.run(site.repairer())
    event = outcome(site.told)
    assert (event.set_back, event.would_change) == ((1, 0) if has_epochs else (0, 1))
    assert site.b.offset("g", "t", 0) == (0 if has_epochs else 85)


async def test_an_offset_is_not_raised_over_messages_that_no_reading_and_no_epochs_prove(site):
    # The slave led once, and went on behind messages of its own: none of them was read since.
    site.send(30)
    site.commit(30, at=site.b)
    site.commit(30)
    site.send(100)
    site.read()
    site.commit(125)
    site.send(10)
    site.copy()
    site.read()
    site.send(10)
    site.copy()
    site.read()
    site.promote(site.b)
    await site.run(site.repairer())
    if site.has_epochs:
        assert site.b.offset("g", "t", 0) == 125
        return
    assert site.b.offset("g", "t", 0) == 30
    assert "before the last master led" in next(e.of.queues[0].why for e in site.told if isinstance(e, RepairRows))


async def test_nothing_happens_where_the_master_is_the_one_that_was_read(site):
    read_twice(site)
    await site.run(site.repairer())
    assert COMMIT not in site.codes
    assert not site.told


async def test_a_master_that_started_again_with_its_store_is_not_raised(tmp_path):
    site = Site(tmp_path)
    read_twice(site)
    site.clock.pass_ms(1_000)
    site.a.boot()
    site.commit(70)
    await site.run(site.repairer(), MasterChangeKind.RESTARTED)
    assert site.a.offset("g", "t", 0) == 70
    assert outcome(site.told).not_proved == 1


async def test_a_topic_that_was_made_anew_since_is_not_raised(site):
    read_twice(site, copied=None)
    site.a.remake("t")
    site.send(200)
    site.copy()
    site.promote(site.b)
    await site.run(site.repairer())
    assert site.b.offset("g", "t", 0) is None
    assert "made anew" in site.told[-1].of.queues[0].why


@pytest.mark.parametrize("what", ["leads", "is master", "in time"])
async def test_a_write_does_not_leave_when_it_is_not_wanted_any_more(site, what):
    read_twice(site)
    site.promote(site.b)

    def before(broker, request):
        if request.code == COMMIT:
            site.is_leading = what != "leads"
            site.knows_master = what != "is master"
            site.clock.pass_ms(60_000 if what == "in time" else 0)

    site.before = before
    await site.run(site.repairer())
    assert COMMIT not in site.codes
    assert site.b.offset("g", "t", 0) == 50
    assert outcome(site.told).failed == 1


async def test_a_write_without_an_answer_is_read_back(site):
    read_twice(site)
    site.promote(site.b)
    site.lost = {COMMIT}
    await site.run(site.repairer())
    assert site.b.offset("g", "t", 0) == 80
    assert outcome(site.told).pushed == 1


async def test_members_whose_reset_was_not_answered_are_listed(site):
    site.send(60)
    site.copy()
    site.read()
    site.read()
    site.send(40)
    site.commit(90)
    site.read()
    site.send(1)
    site.read()
    site.promote(site.b)
    site.commit(95, at=site.b)
    site.lost = {RESET}
    await site.run(site.repairer())
    assert outcome(site.told).failed == 1


async def test_a_reset_that_waits_is_left(site):
    read_twice(site)
    site.promote(site.b)
    site.b.pending["g", "t", 0] = 10
    await site.run(site.repairer())
    assert site.b.offset("g", "t", 0) == 50
    assert outcome(site.told).right == 1


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(Group(pops=True), id="pops"),
        pytest.param(Group(is_online=False), id="offline"),
    ],
)
async def test_a_group_that_does_not_show_that_it_pulls_is_reported(site, group):
    read_twice(site)
    site.groups["g"] = group
    site.promote(site.b)
    await site.run(site.repairer())
    assert COMMIT not in site.codes
    assert outcome(site.told).not_proved == 1


async def test_a_topic_made_anew_while_members_are_awaited_is_not_raised(site, monkeypatch):
    monkeypatch.setattr(repairer_module, "LOOK_S", 0.01)
    read_twice(site, copied=None)
    site.commit(80, group="h", at=site.a)
    site.read()
    site.groups["h"] = Group(is_online=False)
    site.promote(site.b)
    await site.run(site.repairer())
    site.b.remake("t")
    site.send(200)
    site.groups["h"] = Group()
    await asyncio.sleep(0.1)
    assert site.b.offset("h", "t", 0) is None


async def test_only_groups_that_are_named_are_written(site):
    begin(site)
    site.send(100)
    site.copy()
    for group in ("g", "h"):
        site.groups[group] = Group()
        site.commit(80, group=group)
    site.read()
    site.send(1)
    site.copy()
    site.read()
    site.promote(site.b)
    await site.run(site.repairer(acts_for=lambda group: group == "h"))
    assert (site.b.offset("g", "t", 0), site.b.offset("h", "t", 0)) == (None, 80)
    event = outcome(site.told)
    assert (event.pushed, event.would_change) == (1, 1)


async def test_a_broker_of_another_name_is_left_alone(tmp_path):
    site = Site(tmp_path)
    read_twice(site)
    site.promote(site.b)
    site.b.name = "broker-b"
    await site.run(site.repairer())
    assert COMMIT not in site.codes
    assert "is broker-b by its own options" in outcome(site.told).problem


async def test_a_broker_that_is_too_busy_to_show_its_options_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(at_broker, "PAUSE_S", 0)
    site = Site(tmp_path)
    lose_a_tail(site)
    busy = iter(range(30))

    def before(_, request):
        if request.code == RequestCode.GET_BROKER_CONFIG and next(busy, None) is not None:
            raise Refused(ResponseCode.SYSTEM_BUSY, "starting")

    site.before = before
    await site.run(site.repairer())
    assert site.b.pending["g", "t", 0] == 60


async def test_a_manager_that_does_not_lead_forgets_what_is_lost_too(site):
    lose_a_tail(site)
    site.is_leading = False
    repairer = site.repairer()
    repairer.changed(MasterChange(MasterChangeKind.MOVED, NAME, None, site.followed, 1))
    await asyncio.sleep(0.1)
    assert site.parted == [site.b.log.places[60]]
    assert not site.told
    assert COMMIT not in site.codes

    # It still knows what to do about it.
    site.is_leading = True
    await asyncio.sleep(0.3)
    assert site.b.pending["g", "t", 0] == 60


async def test_messages_that_were_seen_are_not_looked_at_again(site):
    for _ in range(20):
        read_twice(site)
    site.promote(site.b)
    slow = {place for place in site.marks if site.a.log.at(place)}
    assert len(slow) > 20

    def before(_, request):
        # One look in three comes too late.
        if request.code == BrokerRequestCode.VIEW_MESSAGE_BY_ID:
            place = int(request.ext_fields["offset"])
            if place in slow and place % 3 == 0:
                slow.remove(place)
                raise InvokeTimeout(site.b.address, 3_000)

    site.before = before
    await site.run(site.repairer())
    assert outcome(site.told).pushed == 1
    assert site.codes.count(BrokerRequestCode.VIEW_MESSAGE_BY_ID) == len(site.marks)


async def test_a_broker_that_serves_late_is_repaired(site, monkeypatch):
    monkeypatch.setattr(repairer_module, "LOOK_S", 0.01)
    read_twice(site)
    site.promote(site.b)
    site.b.is_alive = False
    repairer = site.repairer(acts_for=lambda _: False)
    repairer.changed(MasterChange(MasterChangeKind.MOVED, NAME, None, site.followed, 1))
    await asyncio.sleep(0.05)
    site.clock.pass_ms(90_000)
    site.b.is_alive = True
    await asyncio.sleep(0.3)
    assert outcome(site.told).would_change == 1


async def test_a_later_change_ends_a_run(site):
    read_twice(site)
    site.promote(site.b)
    site.b.is_alive = False
    repairer = site.repairer()
    repairer.changed(MasterChange(MasterChangeKind.MOVED, NAME, None, site.followed, 1))
    await asyncio.sleep(0.02)
    assert repairer.running == 1
    repairer.changed(MasterChange(MasterChangeKind.LOST, NAME, site.followed, None, 2))
    await asyncio.sleep(0.02)
    assert repairer.running == 0


async def test_what_a_run_wrote_is_listed_when_a_later_change_ends_it(site):
    read_twice(site)
    site.promote(site.b)
    repairer = site.repairer()

    def before(_, request):
        if COMMIT in site.codes:
            repairer.changed(MasterChange(MasterChangeKind.LOST, NAME, site.followed, None, 2))

    site.before = before
    await site.run(repairer)
    (run,) = repairer.runs()
    assert [queue.offset for queue in run.queues] == [80]
    assert "changed again" in outcome(site.told).problem


async def test_a_run_that_cannot_be_kept_is_told_and_done(site):
    read_twice(site)
    site.promote(site.b)
    (site.folder / "repairs").write_bytes(b"no folder")
    await site.run(site.repairer(acts_for=lambda _: False))
    assert any(isinstance(event, RepairNotKept) for event in site.told)
    assert outcome(site.told).would_change == 1


async def test_the_first_offset_of_a_thousand_is_written_at_once(site):
    begin(site)
    site.send(200)
    site.copy()
    for number in range(1_000):
        site.groups[f"g{number}"] = Group()
        site.commit(150, group=f"g{number}")
    site.read()
    site.send(1)
    site.copy()
    site.read()
    site.promote(site.b)
    repairer = site.repairer()
    await site.run(repairer)
    event = outcome(site.told)
    assert event.pushed == 1_000
    # What a queue has shown once counts for all its groups.
    assert site.codes.count(BrokerRequestCode.QUERY_CONSUME_QUEUE) < 10
    assert Outcome.PUSHED.value in repairer.runs()[0].counts
    # Milliseconds of turns of the loop here, of which each has many requests.
    assert event.duration_ms < 3_000
