"""Rolling restarts as they are stored and run: by one controller, by the next one, until an operator aborts them."""

import msgspec
import pytest
from fakes.in_process_controller import SET, InProcessController, at
from switched_site import SwitchedSet

from controller.refusals import NotLeader
from controller.storage.documents import DocumentKind
from controller.storage.store import StoreError
from controller.switchover.rolling_restart import RestartPhase
from controller.switchover.rolling_restarts import RestartNotFound, RestartRefused, RestartRequest
from controller.switchover.service import SetNotFound
from controller.switchover.switchover import SwitchoverPhase

IN_SYNC, RESTART, SWITCHOVER = RestartPhase.IN_SYNC, RestartPhase.RESTART, RestartPhase.SWITCHOVER


class RestartedSet(SwitchedSet):
    """The same set, whose processes a test starts anew."""

    async def form(self):
        await super().form()
        self.controller.boots = {at(i): i for i in (1, 2, 3)}
        return self

    @property
    def restarts(self):
        return self.controller.planned.restarts

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
    assert site.controller.counters.rolling_restarts_ended.counts()[("done",)] == 1
    (line,) = site.controller.events("rolling_restart_ended")
    assert (line["to_phase"], line["left"]) == ("DONE", [])
    named = [each["broker_id"] for each in site.controller.events("rolling_restart_phase_entered")]
    assert [each for each in named if each] == [2, 3, 1]


async def test_next_leader_goes_on_where_the_one_before_has_failed(site):
    await begin(site)
    named = await site.look()
    site.controller.planned = site.controller.new_planned()
    assert site.restart == named
    site.start_anew(2)
    assert (await site.look()).restarted == (2,)


async def test_switchover_of_a_leader_that_failed_is_begun_again_by_the_next(site):
    await begin(site, broker_ids=(1,))
    assert (await site.look()).phase is SWITCHOVER
    site.controller.planned = site.controller.new_planned()
    site.switchovers = site.controller.planned.switchovers
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
    with pytest.raises(RestartRefused, match="has ended already"):
        await site.restarts.abort(SET, "again")
    assert (await begin(site)).phase is IN_SYNC


async def test_abort_during_a_look_is_not_overwritten(site):
    await begin(site)
    before = site.restart
    await site.restarts.abort(SET, "")
    await site.restarts._look_at_restart(before)
    assert site.restart.phase is RestartPhase.ABORTED
    (line,) = site.controller.events("rolling_restart_look_failed")
    assert "has changed meanwhile" in line["error"]


@pytest.mark.parametrize(
    ("request_", "sentence"), [({"broker_ids": (7,)}, r"broker-a has no brokers \[7\], but \[1, 2, 3\]")]
)
async def test_restart_of_unknown_brokers_is_refused(site, request_, sentence):
    with pytest.raises(RestartRefused, match=sentence):
        await begin(site, **request_)


async def test_restart_needs_a_set_with_two_brokers_and_no_other_restart(site):
    await site.controller.a_set(1, name="broker-b")
    with pytest.raises(RestartRefused, match="nobody could lead while it restarts"):
        await site.restarts.begin("broker-b", RestartRequest())
    with pytest.raises(SetNotFound, match="there is no broker set broker-z"):
        await site.restarts.begin("broker-z", RestartRequest())
    with pytest.raises(RestartNotFound, match="broker-a has no rolling restart"):
        site.restarts.find(SET)
    begun = await begin(site)
    with pytest.raises(RestartRefused, match=f"{begun.id} restarts broker-a already"):
        await begin(site)


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


async def test_stored_restart_that_cannot_be_read_is_an_error_with_its_name(site):
    documents = site.controller.scaling.documents
    await documents.change(DocumentKind.ROLLING_RESTART, SET, lambda _: msgspec.json.encode({"phase": "UNKNOWN"}))
    assert site.restarts.under_way() == []
    with pytest.raises(StoreError, match="the rolling restart of broker-a cannot be read"):
        site.restarts.find(SET)
