"""Lines 15 to 19 of the checklist: three controllers, of which one leads; ours on an etcd of three members."""

import contextlib
import itertools
import time

import pytest
from groups import TTL_S
from hand_made import APPLY_BROKER_ID, HandMadeBroker
from lengths import everywhere, in_soak, ours_in_soak
from peers.controllers import GET_METADATA, GET_REPLICA_INFO, GET_SYNC_STATE_DATA, NOT_LEADER, leader_of
from peers.servers import CLUSTER
from peers.waiting import holds_for, wait_until
from peers.wire import SUCCESS
from replicated import VERY_LONG_S, Moment
from verdicts import PATIENCE

pytestmark = [pytest.mark.broad, pytest.mark.java, pytest.mark.timeout(900)]

UPDATE_CONTROLLER_CONFIG = 1009
GET_CONTROLLER_CONFIG = 1010
HEARTBEAT = 904

_names = itertools.count()


@pytest.fixture(scope="module")
def group_stage(run, stages, tmp_path_factory):
    stages.close()
    with contextlib.closing(stages.new_stage(run)) as own:
        own.controllers()
        yield own


@pytest.fixture(scope="module")
def group_set(group_stage):
    return group_stage.new_set(group_stage.group.controllers).start()


@pytest.fixture
def complete_set(group_set):
    """The set under three controllers, with everybody back whom another test has ended."""
    for peer in (*group_set.controllers, *group_set.brokers):
        if not peer.process.running:
            peer.start()
    group_set.wait_until_complete()
    return group_set


def leader(replicated, *, seconds=VERY_LONG_S):
    return wait_until(lambda: leader_of(replicated.controllers), seconds=seconds, what="a controller leads")


def all_name(controllers, address):
    """Return whether each of these tells brokers that the leader is at this address."""
    return all(each.metadata().get("controllerLeaderAddress") == address for each in controllers)


@everywhere
def test_follower_refuses_requests_that_only_the_leader_serves(run, group_stage, line):
    with line("19", "leader-only requests to a follower") as it:
        group = group_stage.group
        leading = wait_until(lambda: leader_of(group.controllers), seconds=VERY_LONG_S, what="a controller leads")
        follower = next(each for each in group.controllers if each is not leading)
        wait_until(lambda: all_name([follower], leading.advertised_address), seconds=VERY_LONG_S, what="it is known")
        identity = {"clusterName": CLUSTER, "brokerName": "nobody", "brokerId": "1", "brokerAddress": "127.0.0.1:1"}
        report = {"brokerName": "nobody", "masterBrokerId": "1", "masterEpoch": "1"}
        applying = identity | {"appliedBrokerId": "1", "registerCheckCode": "127.0.0.1:1;1"}
        refused = [
            (1001, report, b'{"syncStateSet":[1],"syncStateSetEpoch":1}'),
            (1002, identity, b""),
            (1003, identity, b""),
            (GET_REPLICA_INFO, {"brokerName": "nobody"}, b""),
            (GET_SYNC_STATE_DATA, {}, b'["nobody"]'),
            (1011, identity | {"isCleanLivingBroker": "true"}, b""),
            (1012, identity, b""),
            (APPLY_BROKER_ID, applying, b""),
        ]
        answers = {code: follower.caller.request(code, fields, body) for code, fields, body in refused}
        assert {code: answer.code for code, answer in answers.items()} == dict.fromkeys(answers, NOT_LEADER)
        heartbeat = identity | {"brokerAddr": "127.0.0.1:1", "epoch": "1", "maxOffset": "1"}
        answered = [
            (HEARTBEAT, heartbeat),
            (GET_METADATA, {}),
            (UPDATE_CONTROLLER_CONFIG, {}),
            (GET_CONTROLLER_CONFIG, {}),
        ]
        for code, fields in answered:
            assert follower.caller.request(code, fields).code == SUCCESS, code
        assert leading.set_state("nobody") is None
        it.saw("eight codes 2007, four answered")


@everywhere
def test_takeover_by_another_controller_changes_no_master(run, complete_set, line):
    with line("16", "kill -9 of the leading controller") as it:
        before = complete_set.state()
        (slave,) = complete_set.slaves
        load = complete_set.load()
        old = leader(complete_set)
        living = [each for each in complete_set.controllers if each is not old]
        old.process.kill()
        killed = Moment()
        slave.process.kill()
        new = leader(complete_set, seconds=(TTL_S + 1) * PATIENCE)
        it.took("new leader", killed.elapsed(), limit=TTL_S + 1)
        wait_until(
            lambda: all_name(living, new.advertised_address), seconds=VERY_LONG_S, what="all name the new leader"
        )
        it.took("all name it", killed.elapsed(), limit=TTL_S + 1)
        complete_set.wait_for_state(
            lambda state: state.in_sync == {before.master}, seconds=15 * PATIENCE, what="the slave left the set"
        )
        it.took("SyncStateSet altered", killed.elapsed(), limit=15)
        load.wait_for_more()
        for peer in (old, slave):
            peer.start()
        after = complete_set.wait_until_complete()
        assert after.epochs == before.epochs
        load.stop()
        complete_set.lose_nothing(load)
        it.saw("epochs unchanged, loss 0")


@in_soak
def test_master_that_fails_together_with_the_leader_is_replaced(run, complete_set, line):
    with line("17", "kill -9 of leading controller and master together") as it:
        before, master = complete_set.state(), complete_set.master
        load = complete_set.load()
        old = leader(complete_set)
        killed = Moment()
        old.process.kill()
        master.process.kill()
        after = complete_set.wait_for_master(
            lambda state: state.master != before.master, seconds=(TTL_S + 6) * PATIENCE, what="another master"
        )
        it.took("new master", killed.elapsed(), limit=TTL_S + 6)
        it.took("producer again", killed.until_sent(load, port=complete_set.master.port), limit=None)
        assert after.master_epoch > before.master_epoch
        for peer in (old, master):
            peer.start()
        complete_set.wait_until_complete()
        load.stop()
        complete_set.lose_nothing(load)
        it.saw("loss 0")


@ours_in_soak
def test_leader_without_its_store_stops_leading_in_time_and_commits_nothing_later(run, group_stage, complete_set, line):
    with line("18", "the leader is cut off from etcd") as it, contextlib.ExitStack() as stack:
        before = complete_set.state()
        load = complete_set.load()
        old = leader(complete_set)
        others = [each for each in complete_set.controllers if each is not old]
        name = f"held{next(_names)}"
        late = HandMadeBroker(old.address, name)
        stack.callback(late.die)
        ways = group_stage.group.ways_of(old)
        for way in ways:
            way.hold()
            stack.callback(way.let_go)
        held = Moment()
        late.broker_id = 1
        answer = late.apply_id()
        it.took(f"a write was answered {answer.code}", held.elapsed(), limit=3)
        assert answer.code != SUCCESS
        wait_until(
            lambda: old.replica_info(complete_set.name).code == NOT_LEADER, seconds=TTL_S * PATIENCE, what="2007"
        )
        it.took("2007", held.elapsed(), limit=TTL_S)
        new = wait_until(lambda: leader_of(others), seconds=TTL_S * PATIENCE, what="another leads")
        it.took("another leads", held.elapsed(), limit=None)
        for way in ways:
            way.let_go()
        holds_for(lambda: new.set_state(name) is None, seconds=5, what="nothing of the old leader is stored")
        assert name not in group_stage.group.etcd.ctl("get", "--prefix", "--keys-only", "/").stdout
        wait_until(
            lambda: all_name(complete_set.controllers, new.advertised_address),
            seconds=VERY_LONG_S,
            what="the old one knows",
        )
        assert complete_set.wait_until_complete().epochs == before.epochs
        load.stop()
        assert load.failures() == []
        it.saw("the held write was never stored, epochs unchanged")


@ours_in_soak
def test_slow_store_delays_no_response_beyond_its_limit_and_changes_no_master(run, group_stage, complete_set, line):
    with line("15", "etcd slower by 5 s for 30 s") as it, contextlib.ExitStack() as stack:
        before = complete_set.state()
        load = complete_set.load()

        def slow_down(seconds):
            for way in group_stage.group.ways:
                way.delay_s = seconds

        stack.callback(slow_down, 0)
        slow_down(5)
        slow = Moment()
        slowest, codes = 0.0, set()
        while slow.elapsed() < 30:
            for controller in complete_set.controllers:
                since = Moment()
                identity = {"clusterName": CLUSTER, "brokerName": f"slow{next(_names)}"}
                fields = identity | {"appliedBrokerId": "1", "registerCheckCode": "127.0.0.1:1;1"}
                codes.add(controller.caller.request(APPLY_BROKER_ID, fields).code)
                slowest = max(slowest, since.elapsed())
            time.sleep(0.5)
        it.took("slowest answer", slowest, limit=3)
        slow_down(0)
        over = Moment()
        leader(complete_set)
        it.took("leader again", over.elapsed(), limit=None)
        assert SUCCESS not in codes
        it.saw(f"codes {sorted(codes)}")
        after = complete_set.wait_until_complete()
        assert after.epochs == before.epochs
        load.stop()
        assert load.failures() == []
        it.saw("epochs unchanged")
