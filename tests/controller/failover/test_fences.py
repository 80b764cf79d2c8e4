"""A silent master is fenced before its successor is elected: hosts that check its role end their sessions first."""

import pytest
from fakes.in_process_controller import SET, InProcessController, at

from controller.failover.events import NotifyRoleChanged
from controller.failover.fences import FENCE_MS_MAX
from controller.failover.monitor import LOOK_MS
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ProbeOutcome
from controller.roles.broker_roles import ANSWER_SETTLES_MS
from controller.roles.verdict import RoleVerdict
from remoting.protocol.codes import ResponseCode
from store.store import ControllerMember

OTHER = ControllerMember(id="n1", address="10.0.0.2:9878")
ONE = BrokerKey(SET, 1)
PROXY, AGENT = "10.9.0.5", "10.0.0.11"


class Site(InProcessController):
    """A set whose first broker leads, and hosts that check its role."""

    def check_role(self, *hosts):
        """Let hosts check the role of the first broker; returns the verdict."""
        answer = self.roles.answer(ONE)
        for host in hosts:
            self.roles.checkers.record(ONE, host, answer)
        return answer.verdict

    async def freeze_master(self, *hosts, outcome=ProbeOutcome.NO_ANSWER):
        """Let time pass until the first broker is judged; these hosts check its role meanwhile."""
        for _ in range(100):
            self.clock.pass_ms(LOOK_MS)
            self.check_role(*hosts)
            if self.clock.now_ms() % 1_000 == 0:
                await self.heartbeat(2, 3)
            self.control.monitor.look_at_brokers()
            for probe in self.take_probes():
                self.control.monitor.probed(probe.key, outcome if probe.key == ONE else ProbeOutcome.ANSWERED)
            if self.detector.failed_broker(ONE) is not None:
                return
        raise AssertionError("the master is not judged")

    async def passed_ms(self, *hosts, until, step_ms=LOOK_MS):
        """Look at brokers and sets until something holds; returns how many ms that took."""
        await self.done()
        for passed_ms in range(0, 3_000, step_ms):
            if until():
                return passed_ms
            self.clock.pass_ms(step_ms)
            self.check_role(*hosts)
            self.control.monitor.look_at_brokers()
            self.control.monitor.look_at_sets()
            await self.done()
        raise AssertionError("it does not come")

    def has_successor(self):
        return self.stored().master not in (None, 1)

    def notified(self):
        """Return master and recipients of each notification since the last call, by broker id."""
        found = [each for each in self.effects if isinstance(each, NotifyRoleChanged)]
        self.effects = [each for each in self.effects if each not in found]
        return [(each.master.broker_id, dict(each.recipients)) for each in found]

    @property
    def last_election(self):
        return next(reversed(self.elections))


@pytest.fixture
async def site(tmp_path):
    async with Site(tmp_path) as site:
        site.masters.add(at(1))
        await site.a_set(1, 2, 3)
        await site.publish_roles()
        await site.heartbeat(1, 2, 3)
        for _ in range(4):
            await site.pass_ms(1_000, beating=(1, 2, 3))
        yield site


async def test_successor_of_a_silent_master_that_nobody_checks_is_elected_at_once(site):
    await site.freeze_master()
    assert await site.passed_ms(until=site.has_successor) == 0
    assert site.last_election.phases.fence_ms is None
    assert "check" not in site.last_election.cause.why


async def test_successor_of_a_silent_master_is_elected_once_each_host_that_checks_has_ended_its_sessions(site):
    await site.freeze_master(PROXY, AGENT)
    await site.done()
    assert site.check_role(PROXY) is RoleVerdict.FAILED
    # The agent checks later than the proxy.
    for _ in range(2):
        site.clock.pass_ms(LOOK_MS)
        site.control.monitor.look_at_brokers()
        await site.done()
        assert not site.has_successor()
    assert await site.passed_ms(PROXY, AGENT, until=site.has_successor) == LOOK_MS + ANSWER_SETTLES_MS
    election = site.last_election
    assert election.phases.fence_ms == 3 * LOOK_MS + ANSWER_SETTLES_MS
    assert election.phases.commit_ms == 0
    assert election.cause.why.endswith("; no host that checks its role leads to it any more")


async def test_election_that_the_look_at_sets_begins_has_the_reason_of_the_one_that_waited(site):
    await site.freeze_master(PROXY)
    await site.done()
    site.check_role(PROXY)
    site.clock.pass_ms(ANSWER_SETTLES_MS)
    site.control.monitor.look_at_sets()
    await site.done()
    assert site.has_successor()
    assert site.last_election.cause.why.endswith("; no host that checks its role leads to it any more")


async def test_host_that_does_not_check_again_delays_an_election_for_no_longer_than_the_limit(site):
    await site.freeze_master(PROXY, AGENT)
    assert await site.passed_ms(PROXY, until=site.has_successor) == FENCE_MS_MAX
    assert f"; {AGENT} did not check its role within {FENCE_MS_MAX} ms" in site.last_election.cause.why


async def test_many_hosts_that_do_not_check_again_are_one_short_reason(site):
    await site.freeze_master(*(f"10.9.1.{number}" for number in range(100, 200)))
    assert await site.passed_ms(until=site.has_successor) == FENCE_MS_MAX
    assert f"; 10.9.1.100 and 99 others did not check its role within {FENCE_MS_MAX} ms" in site.last_election.cause.why


async def test_master_whose_process_has_ended_is_replaced_at_once_although_its_role_is_checked(site):
    await site.freeze_master(PROXY, outcome=ProbeOutcome.REFUSED)
    assert await site.passed_ms(until=site.has_successor) == 0
    assert site.last_election.phases.fence_ms is None


async def test_hosts_that_were_answered_down_before_are_not_waited_for(site):
    site.roles.holds.hold(SET, site.clock.now_ms() + 10_000)
    await site.freeze_master(PROXY)
    assert await site.passed_ms(until=site.has_successor) == 0


async def test_master_that_returns_before_its_successor_is_elected_leads_on_and_serves(site):
    await site.freeze_master(PROXY)
    await site.done()
    assert site.check_role(PROXY) is RoleVerdict.FAILED
    await site.heartbeat(1)
    elections = len(list(site.elections))
    assert await site.passed_ms(PROXY, until=lambda: site.check_role(PROXY) is RoleVerdict.SERVES) == 0
    await site.pass_ms(2_000, beating=(1, 2, 3))
    assert (site.stored().master, site.stored().master_epoch, len(list(site.elections))) == (1, 1, elections)


async def test_master_that_returns_and_falls_silent_again_is_fenced_again(site):
    await site.freeze_master(PROXY)
    await site.done()
    site.check_role(PROXY)
    await site.heartbeat(1, 2, 3)
    await site.pass_ms(4_000, beating=(1, 2, 3))
    assert site.check_role(PROXY) is RoleVerdict.SERVES
    await site.freeze_master(PROXY)
    assert await site.passed_ms(PROXY, until=site.has_successor) == LOOK_MS + ANSWER_SETTLES_MS


async def test_controller_that_leads_no_longer_elects_nobody_at_the_end_of_a_fence(site):
    await site.freeze_master(PROXY)
    await site.done()
    site.group.follows(OTHER)
    for _ in range(20):
        site.clock.pass_ms(LOOK_MS)
        site.control.monitor.look_at_brokers()
        site.control.monitor.look_at_sets()
        await site.done()
    assert (site.stored().master, site.stored().master_epoch) == (1, 1)


async def test_broker_and_operator_get_no_master_before_the_fence_has_ended(site):
    await site.freeze_master(PROXY)
    await site.done()
    for request, code in (
        ({"broker_id": 2}, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED),
        ({"broker_id": 2, "designate": True}, ResponseCode.CONTROLLER_ELECT_MASTER_FAILED),
        ({"broker_id": -1}, ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE),
    ):
        answer = await site.elect(**request)
        assert (answer.code, "end their sessions first" in answer.remark) == (code, True)
    assert site.stored().master == 1
    await site.passed_ms(PROXY, until=site.has_successor)


async def test_election_that_was_requested_after_the_fence_is_held_at_once(site):
    await site.freeze_master(PROXY)
    await site.done()
    site.check_role(PROXY)
    site.clock.pass_ms(ANSWER_SETTLES_MS)
    assert (await site.elect(2)).code == 0
    assert site.stored().master == 2
    site.control.monitor.look_at_brokers()
    await site.done()
    assert site.stored().master_epoch == 2


# A master that was cleaned


async def clean(site, broker_id):
    assert (await site.clean(str(broker_id), living=True)).code == 0


async def test_successor_of_a_cleaned_master_is_elected_once_each_host_that_checks_has_ended_its_sessions(site):
    assert site.check_role(PROXY, AGENT) is RoleVerdict.SERVES
    await clean(site, 1)
    assert site.check_role(PROXY) is RoleVerdict.SUPERSEDED
    for _ in range(2):
        site.clock.pass_ms(LOOK_MS)
        site.control.monitor.look_at_sets()
        await site.done()
        assert site.stored().master is None
    assert await site.passed_ms(PROXY, AGENT, until=site.has_successor) == LOOK_MS + ANSWER_SETTLES_MS
    assert site.last_election.cause.why.endswith("; no host that checks its role leads to it any more")
    assert site.check_role() is RoleVerdict.SUPERSEDED


async def test_host_that_does_not_check_again_delays_the_successor_of_a_cleaned_master_for_no_longer_than_the_limit(
    site,
):
    site.check_role(PROXY)
    await clean(site, 1)
    answer = await site.elect(2)
    assert (answer.code, "end their sessions first" in answer.remark) == (
        ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
        True,
    )
    assert await site.passed_ms(until=site.has_successor) == FENCE_MS_MAX


async def test_cleaned_master_is_notified_once_of_its_successor(site):
    """It leads still, so it is a slave before another broker leads."""
    site.notified()
    await clean(site, 1)
    assert site.notified() == []
    await site.passed_ms(until=site.has_successor)
    master = site.stored().master
    assert [each.former_master for each in site.effects if isinstance(each, NotifyRoleChanged)] == [1]
    assert site.notified() == [(master, {1: at(1), 2: at(2), 3: at(3)})]
    await site.heartbeat(1, 2, 3)
    assert (await site.report([2, 3], master=master, master_epoch=3, epoch=4)).code == 0
    assert (await site.elect(5 - master, designate=True)).code == 0
    assert site.notified() == [(5 - master, {2: at(2), 3: at(3)})]


async def test_cleaned_master_whose_process_has_ended_holds_up_nobody_and_is_not_notified(site):
    site.check_role(PROXY)
    site.control.detector.may_be_cut_off = lambda _: False
    await site.freeze_master(PROXY, outcome=ProbeOutcome.REFUSED)
    site.notified()
    await clean(site, 1)
    await site.passed_ms(until=site.has_successor)
    assert site.last_election.phases.fence_ms is None
    assert all(1 not in recipients for _, recipients in site.notified())


async def test_set_that_is_cleaned_as_a_whole_leaves_nothing_that_waits(site):
    site.check_role(PROXY)
    await clean(site, 1)
    assert (await site.clean(living=True)).code == 0
    assert site.check_role() is RoleVerdict.UNKNOWN
    assert site.fences.cleaned == {}


async def test_controller_that_leads_no_longer_forgets_cleaned_masters(site):
    await clean(site, 1)
    site.control.deposed()
    assert site.fences.cleaned == {}
