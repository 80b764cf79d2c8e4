"""Planned switchovers and rolling restarts of real brokers under load: producers as they come behind HAProxy.

Producers whose failed sends count have one thread: with several, a request may wait for its timeout although its
connection has ended (docs/role-addresses-switchover.md), which is the client's doing.
"""

import pytest
from measured import note
from peers.jars import V5_1, V5_5
from peers.waiting import wait_until
from replicated import IN_SYNC_S, VERY_LONG_S
from role_addressed import SET, acknowledged_too_late, first_acknowledged, longest_gap_s, now_ms, role_addressed_sets
from switched import ENDED, SwitchedSet, keeps_order, orders_of

pytestmark = [pytest.mark.java, pytest.mark.broad, pytest.mark.timeout(1800)]

#: Far more than on an idle machine, and less than a producer waits: benchmarks measure.
GAP_MAX_S = 3


@pytest.fixture
def begin(tmp_path):
    """Return what starts a set with its address; all of it ends with the test."""
    with role_addressed_sets(tmp_path, SwitchedSet) as begin:
        yield begin


@pytest.mark.parametrize("version", [V5_5, pytest.param(V5_1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("switchovers", [3, pytest.param(50, marks=pytest.mark.soak)])
def test_switchover_under_load_fails_no_send_loses_nothing_and_keeps_the_order_of_keys(begin, version, switchovers):
    site = begin(version)
    load = site.load()
    ordered = site.load("ordered", ordered=1, threads=4)
    gaps = []
    for _ in range(switchovers):
        for each in (load, ordered):
            each.wait_for_more(count=400)
        since_ms = now_ms()
        done = site.switch_over(reason="a test")
        assert (done["phase"], done["isHeld"], done["problem"]) == ("DONE", True, ""), done
        old, new = (site.brokers.by_id(done[which]) for which in ("oldMaster", "newMaster"))
        for each in (load, ordered):
            first_acknowledged(each, since_ms, not_by=old)
        for each in (load, ordered):
            each.wait_for_more(count=400)
        assert site.brokers.is_master(new)
        assert [acknowledged_too_late(each, old, since_ms) for each in (load, ordered)] == [[], []]
        gaps.append((max(longest_gap_s(each, since_ms) for each in (load, ordered)), done["heldMs"] / 1000))
        site.brokers.wait_until_complete()
    note("switchovers", version, f"brokers {version}: longest pause and hold of each, s: {gaps}")
    for each in (load, ordered):
        each.stop()
    assert load.failures() == []
    assert max(gap for gap, _ in gaps) < GAP_MAX_S
    site.brokers.lose_nothing(load, ordered)
    scan = site.lab.scan("order", namesrv=[site.namesrv.address], topic=SET)
    stored = scan.keys()
    orders = orders_of(key for key in stored if key.startswith(f"{ordered.prefix}-"))
    assert len(orders) == 4
    assert all(keeps_order(numbers) for numbers in orders.values())


@pytest.mark.soak
def test_switchover_without_all_acks_loses_nothing_because_clients_are_held(begin):
    """The master does not wait for its slave: what it takes alone after the last look at its log is lost."""
    site = begin(allAckInSyncStateSet=False)
    load = site.load()
    for _ in range(3):
        load.wait_for_more(count=400)
        done = site.switch_over()
        assert done["phase"] == "DONE", done
        site.brokers.wait_until_complete()
    load.wait_for_more(count=100).stop()
    assert load.failures() == []
    site.brokers.lose_nothing(load)


@pytest.mark.soak
def test_elected_broker_that_is_frozen_is_rolled_back(begin):
    site = begin()
    load = site.load()
    load.wait_for_more(count=200)
    before = site.brokers.state()
    (slave,) = site.brokers.slaves
    status, begun = site.request("switchover", {"holdMsMax": 5_000})
    assert status == 202, begun
    slave.process.pause()

    def ended():
        _, shown = site.request("switchover")
        return shown if shown["phase"] in ENDED else None

    ended = wait_until(ended, seconds=VERY_LONG_S, what="the end of the switchover")
    slave.process.resume()
    # It was frozen before it was elected, or after.
    assert ended["phase"] in {"FAILED", "ROLLED_BACK", "DONE"}, ended
    site.brokers.wait_until_complete()
    load.wait_for_more(count=100).stop()
    # It leads on if it had begun its epoch: it may have acknowledged messages.
    if ended["phase"] != "DONE" and "has begun its master epoch" not in ended["problem"]:
        assert site.brokers.state().master == before.master
    site.brokers.lose_nothing(load)


@pytest.mark.soak
def test_rolling_restart_restarts_each_broker_and_throws_no_send(begin):
    site = begin()
    first, began_ms = site.brokers.state().master, now_ms()
    # A slave that stops keeps its connection to the master for 3 s, without acknowledging anything: what the master
    # answers then is stored, and is no exception.
    load = site.load(**{"timeout-ms": 10_000})
    status, begun = site.request("rolling-restart", {"reason": "a test"})
    assert status == 202, begun
    restarted = []

    def named():
        _, shown = site.request("rolling-restart")
        now = shown["restartNow"]
        return shown if shown["phase"] in {"DONE", "FAILED"} or (now and now not in restarted) else None

    while (shown := wait_until(named, seconds=VERY_LONG_S + IN_SYNC_S, what="the next broker"))["restartNow"]:
        broker = site.brokers.by_id(shown["restartNow"])
        assert site.brokers.state().master != shown["restartNow"]
        broker.process.stop()
        site.brokers.restart(broker)
        restarted.append(shown["restartNow"])
    assert shown["phase"] == "DONE", shown
    assert sorted(restarted) == sorted(site.brokers.state().members)
    assert restarted[-1] == first
    load.wait_for_more(count=100).stop()
    assert {each.failure for each in load.failures()} <= {"FLUSH_SLAVE_TIMEOUT"}
    assert len(load.failures()) <= len(restarted)
    note("switchovers", "restart", f"rolling restart: longest pause {longest_gap_s(load, began_ms)} s")
    site.brokers.lose_nothing(load)
