"""Rolling restarts as they are stored and run: by one controller, by the next one, until an operator aborts them."""

import msgspec
import pytest
from fakes.in_process_controller import SET, InProcessController, at
from switched_site import SwitchedSet

from controller.refusals import NotLeader
from controller.switchover.events import RESTARTS_ENDED
from controller.switchover.record import SwitchoverPhase
from controller.switchover.rolling_restart import RestartPhase
from controller.switchover.rolling_restarts import RestartNotFound, RestartRefused, RestartRequest
from controller.switchover.service import SetNotFound
from store.documents import DocumentKind
from store.store import StoreError

IN_SYNC, RESTART, SWITCHOVER = RestartPhase.IN_SYNC, RestartPhase.RESTART, RestartPhase.SWITCHOVER


class RestartedSet(SwitchedSet):
    """The same set, whose processes a test starts anew."""

    async def form(self):
        await super().form()
        self.controller.boots = {at(i): i for i in (1, 2, 3)}
        return self

    @property
    def restarts(self):
        return self.controller.restarts

    @property
    def restart(self):
        return self.restarts.find(SET)

    async def look(self):
        """Let one look end; what it has begun goes on."""
        self.restarts.look()
        for task in list(self.restarts._looks.values()):
            await task
        return self.restart

    def start_anew(self, broker_id):
        self.controller.boots[at(broker_id)] += 1_000


@pytest.fixture
async def site(tmp_path):
    async with InProcessController(tmp_path) as controller:
        site = await RestartedSet(controller).form()
        yield site
        site.end()


async def begin(site, **request):
    return await site.restarts.begin(SET, RestartRequest(**request))


async def restart_slaves(site):
    for broker_id in (2, 3):
        named = await site.look()
        assert (named.phase, named.broker_id) == (RESTART, broker_id)
        site.start_anew(broker_id)
        assert (await site.look()).phase is IN_SYNC


async def in_sync_under(site, master):
    """Let all brokers be in sync with a new master, as it reports them."""
    stored = site.stored
    answer = await site.controller.report(
        [1, 2, 3], master=master, master_epoch=stored.master_epoch, epoch=stored.sync_state_set_epoch
    )
    assert answer.code == 0


async def test_whole_set_is_restarted_and_the_master_is_the_last(site):
    begun = await begin(site, reason="new JDK", requested_by="ana")
    assert begun.brokers == (1, 2, 3)
    await restart_slaves(site)
    assert (await site.look()).phase is SWITCHOVER
    await site.until(SwitchoverPhase.CONFIRM)
    assert (site.switchover.request.requested_by, site.switchover.request.reason) == ("rolling restart", "new JDK")
    assert (await site.look()).phase is SWITCHOVER
    assert site.restarts.waits_for[SET] == "the end of the switchover"
    new = site.switchover.new_master
    site.serve(new)
    await site.until(SwitchoverPhase.DONE)
    assert (await site.look()).phase is IN_SYNC
    await site.heartbeats()
    assert (await site.look()).phase is IN_SYNC
    assert "to be in the SyncStateSet" in site.restarts.waits_for[SET]
    await in_sync_under(site, new)
    named = await site.look()
    assert (named.phase, named.broker_id) == (RESTART, 1)
    site.start_anew(1)
    await site.look()
    done = await site.look()
    assert (done.phase, done.left, site.restarts.under_way()) == (RestartPhase.DONE, (), [])
    assert site.controller.telemetry.counters[RESTARTS_ENDED].counts()[("done",)] == 1
    (line,) = site.controller.events("rolling_restart_ended")
    assert (line["to_phase"], line["left"]) == ("DONE", [])
    named = [each["broker_id"] for each in site.controller.events("rolling_restart_phase_entered")]
    assert [each for each in named if each] == [2, 3, 1]


async def test_next_leader_goes_on_where_the_one_before_has_failed(site):
    await begin(site)
    named = await site.look()
    site.controller.plan()
    assert site.restart == named
    site.start_anew(2)
    assert (await site.look()).restarted == (2,)


async def test_switchover_of_a_leader_that_failed_is_begun_again_by_the_next(site):
    await begin(site, broker_ids=(1,))
    assert (await site.look()).phase is SWITCHOVER
    site.controller.plan()
    site.switchovers = site.controller.switchovers
    assert site.switchover is None
    await site.look()
    assert site.switchover.old_master == 1


async def test_failed_switchover_is_tried_again_and_its_reason_is_shown(site):
    site.controller.roles.checkers.clear()
    site.controller.all_ack = False
    await begin(site, broker_ids=(1,))
    for _ in range(3):
        assert (await site.look()).phase is SWITCHOVER
        after = await site.look()
        site.controller.clock.pass_ms(10_000)
        await site.heartbeats()
    assert after.phase is RestartPhase.FAILED
    assert "3 switchovers did not succeed" in after.problem
    assert "acceptLoss" in after.problem


async def test_switchover_that_ends_otherwise_counts_as_failed(site):
    await begin(site, broker_ids=(1,))
    await site.look()
    await site.until(SwitchoverPhase.HOLD)
    await site.heartbeats()
    assert (await site.controller.elect(1, designate=True)).code != 0
    site.controller.control.detector.failed_broker = lambda key: key.broker_id == 2 or None
    await site.until(SwitchoverPhase.FAILED)
    assert (await site.look()).failed_switchovers == 1


async def test_aborted_restart_names_nobody_any_more(site):
    await begin(site)
    await site.look()
    aborted = await site.restarts.abort(SET, "tomorrow")
    assert (aborted.phase, aborted.problem) == (RestartPhase.ABORTED, "aborted: tomorrow")
    site.start_anew(2)
    assert site.restarts.under_way() == []
    with pytest.raises(RestartRefused, match="has already ended"):
        await site.restarts.abort(SET, "again")
    assert (await begin(site)).phase is IN_SYNC


async def test_abort_during_a_look_is_not_overwritten(site):
    await begin(site)
    before = site.restart
    await site.restarts.abort(SET, "")
    await site.restarts._look_at_restart(before, "")
    assert site.restart.phase is RestartPhase.ABORTED
    (line,) = site.controller.events("rolling_restart_look_failed")
    assert "has changed meanwhile" in line["error"]


async def another_set(site, *, base, name="broker-b"):
    """Let another set of two brokers be there, at 10.0.0.BASE and the next address."""
    controller, ids = site.controller, (1, 2)
    for broker_id in ids:
        assert (await controller.apply(broker_id, name=name, address=f"10.0.0.{base + broker_id}:30911")).code == 0
        registered = {"name": name, "address": f"10.0.0.{base + broker_id}:30911"}
        assert (await controller.register(broker_id, **registered)).code == 0
        await controller.heartbeat(broker_id, name=name, epoch=-1, maxOffset=0)
        controller.boots[f"10.0.0.{base + broker_id}:30911"] = broker_id
    assert (await controller.elect(1, name=name)).code == 0
    assert (await controller.report(ids, name=name)).code == 0
    await controller.heartbeat(*ids, name=name)
    return name


async def test_restart_of_another_set_of_the_cluster_waits_for_the_end_of_the_first(site):
    other = await another_set(site, base=100)
    await begin(site)
    await site.restarts.begin(other, RestartRequest())
    assert (await site.look()).phase is RESTART
    assert site.restarts.find(other).phase is IN_SYNC
    assert site.restarts.waits_for[other].startswith(f"the rolling restart of {SET}, which was begun before in")
    # The next leader knows whose turn it is.
    site.controller.plan()
    await site.look()
    assert site.restarts.find(other).phase is IN_SYNC
    await site.restarts.abort(SET, "")
    await site.look()
    assert (site.restarts.find(other).phase, site.restarts.find(other).broker_id) == (RESTART, 2)


async def test_restarts_go_on_at_one_time_if_the_operator_says_so_and_no_host_has_brokers_of_both(site):
    for name, base in (("broker-b", 100), ("broker-c", 12)):
        await another_set(site, base=base, name=name)
    await begin(site)
    for name in ("broker-b", "broker-c"):
        await site.restarts.begin(name, RestartRequest(cluster_restarts_max=3))
    assert (await site.look()).phase is RESTART
    assert site.restarts.find("broker-b").phase is RESTART
    assert site.restarts.find("broker-c").phase is IN_SYNC
    assert site.restarts.waits_for["broker-c"] == f"the rolling restart of {SET}, which has a broker on 10.0.0.13 too"


async def test_restart_that_is_begun_after_the_clock_was_set_back_overtakes_nobody(site):
    other = await another_set(site, base=100)
    await begin(site)
    assert (await site.look()).phase is RESTART
    site.controller.clock.set_back_ms(60_000)
    await site.restarts.begin(other, RestartRequest())
    await site.look()
    assert site.restarts.find(other).phase is IN_SYNC


async def test_stored_restart_of_a_later_release_is_neither_read_nor_replaced(site):
    documents = site.controller.scaling.documents
    later = msgspec.json.encode({"format": 2, "what_came_later": True})
    await documents.change(DocumentKind.ROLLING_RESTART, SET, lambda _: later)
    sentence = "the rolling restart of broker-a cannot be read: it has format 2, and this release reads formats up to 1"
    for refused in (begin(site), site.restarts.abort(SET, "")):
        with pytest.raises(StoreError, match=sentence):
            await refused
    assert documents.get(DocumentKind.ROLLING_RESTART, SET) == later


async def test_follower_knows_and_runs_no_restart(site):
    await begin(site)
    site.end()
    assert site.restarts.under_way() == []
    with pytest.raises(NotLeader):
        site.restarts.find(SET)
    with pytest.raises(NotLeader):
        await begin(site)


async def test_store_that_fails_holds_up_a_restart_and_is_reported(site, monkeypatch):
    async def fails(*_):
        raise StoreError("the disk is full")

    await begin(site)
    monkeypatch.setattr(site.controller.backend, "commit_document", fails)
    assert (await site.look()).phase is IN_SYNC
    (line,) = site.controller.events("rolling_restart_look_failed")
    assert line["error"] == "the disk is full"
    monkeypatch.undo()
    assert (await site.look()).phase is RESTART


async def test_restart_needs_a_set_with_two_brokers_and_no_other_restart(site):
    await site.controller.a_set(1, name="broker-b")
    with pytest.raises(RestartRefused, match="no other could lead while it restarts"):
        await site.restarts.begin("broker-b", RestartRequest())
    with pytest.raises(SetNotFound, match="there is no broker set broker-z"):
        await site.restarts.begin("broker-z", RestartRequest())
    with pytest.raises(RestartNotFound, match="broker-a has no rolling restart"):
        site.restarts.find(SET)
    begun = await begin(site)
    with pytest.raises(RestartRefused, match=f"{begun.id} is already restarting broker-a"):
        await begin(site)
