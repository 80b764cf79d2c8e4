"""Producers as they come, a role address, HAProxy and real brokers: what a client notices of a failover.

The producer polls routes each 30 s, so that it never learns a new address in time: it only reconnects.
"""

import time

import pytest
from peers.jars import V5_1, V5_5
from peers.servers import CLUSTER
from peers.waiting import wait_until
from role_addressed import (
    SET,
    acknowledged_too_late,
    first_acknowledged,
    longest_gap_s,
    now_ms,
    role_addressed_sets,
)

pytestmark = [pytest.mark.java, pytest.mark.broad, pytest.mark.timeout(900)]

#: The first seconds of a producer are those of its compiler.
STEADY_S = 4
#: How long sending is watched after it went on.
AFTER_S = 2
#: A producer gives up a send then; on a busy machine one waits for more than a second, whatever controllers do.
SEND_TIMEOUT_S = 3
#: Far more than on an idle machine: benchmarks/role_addresses.py measures.
GAP_MAX_S = 9


@pytest.fixture
def begin(tmp_path):
    """Return what starts a set with its address; all of it ends with the test."""
    with role_addressed_sets(tmp_path) as begin:
        yield begin


@pytest.mark.parametrize("version", [V5_5, pytest.param(V5_1, marks=pytest.mark.soak)])
def test_producer_as_it_comes_notices_a_killed_master_for_a_moment_only(begin, version):
    site = begin(version)
    load = site.load()
    for _ in range(2):
        time.sleep(STEADY_S)
        victim, since_ms = site.master(), now_ms()
        victim.process.kill()
        first_acknowledged(load, since_ms, not_by=victim)
        time.sleep(AFTER_S)
        gap_s = longest_gap_s(load, since_ms)
        assert gap_s < GAP_MAX_S
        # A send fails only where all of it takes longer than its timeout, as on a machine that is very busy. Only until
        # here: while the victim starts, a broker there answers SYSTEM_BUSY, and a client 5.1.4 does not try again then.
        assert len([each for each in load.failures() if each.unix_ms > since_ms]) <= gap_s // SEND_TIMEOUT_S
        site.brokers.restart(victim)
        site.brokers.wait_until_complete()
        assert acknowledged_too_late(load, victim, since_ms) == []
    load.stop()
    site.brokers.lose_nothing(load)


@pytest.mark.parametrize("version", [V5_5, pytest.param(V5_1, marks=pytest.mark.soak)])
def test_thawed_master_acknowledges_nothing_after_its_successor_has(begin, version):
    site = begin(version)
    load = site.load()
    for _ in range(2):
        time.sleep(STEADY_S)
        victim, since_ms = site.master(), now_ms()
        victim.process.pause()
        first_acknowledged(load, since_ms, not_by=victim)
        time.sleep(AFTER_S)
        victim.process.resume()
        assert longest_gap_s(load, since_ms) < GAP_MAX_S
        site.brokers.wait_until_complete()
        assert acknowledged_too_late(load, victim, since_ms) == []
    load.stop()
    site.brokers.lose_nothing(load)


def test_master_that_is_cleaned_while_it_lives_acknowledges_nothing_after_its_successor_has(begin):
    site = begin()
    load = site.load()
    time.sleep(STEADY_S)
    victim, since_ms = site.master(), now_ms()
    words = ["-a", site.controllers[0].address, "-bn", SET, "-c", CLUSTER, "-b", str(site.brokers.id_of(victim)), "-l"]
    assert "success" in site.brokers.mqadmin("cleanBrokerMetadata", *words)
    first_acknowledged(load, since_ms, not_by=victim)
    time.sleep(AFTER_S)
    assert longest_gap_s(load, since_ms) < GAP_MAX_S
    assert not site.brokers.is_master(victim)
    load.wait_for_more(count=100).stop()
    assert acknowledged_too_late(load, victim, since_ms) == []
    site.brokers.lose_nothing(load)


@pytest.mark.etcd
@pytest.mark.parametrize("away_s", [15, pytest.param(300, marks=pytest.mark.soak)])
def test_nothing_changes_for_clients_while_all_controllers_and_etcd_are_away(begin, away_s):
    site = begin(controllers=3)
    load = site.load()
    time.sleep(STEADY_S)
    since_ms, before = now_ms(), site.brokers.state()
    for each in site.controllers:
        each.process.kill()
    site.etcd.kill()
    time.sleep(away_s)
    load.wait_for_more(count=100)
    assert longest_gap_s(load, since_ms) < SEND_TIMEOUT_S
    site.etcd.restart()
    for each in site.controllers:
        each.start()
    site.brokers.wait_until_complete()
    assert site.brokers.state().epochs == before.epochs
    load.wait_for_more(count=100).stop()
    assert load.failures() == []
    site.brokers.lose_nothing(load)


@pytest.mark.soak
def test_haproxy_that_is_killed_and_restarted_leads_to_the_master_again(begin):
    site = begin()
    load = site.load()
    time.sleep(STEADY_S)
    since_ms = now_ms()
    site.haproxy.process.kill()
    site.haproxy.start()
    load.wait_for_more(count=100)
    assert longest_gap_s(load, since_ms) < GAP_MAX_S
    load.stop()
    site.brokers.lose_nothing(load)


@pytest.mark.etcd
@pytest.mark.soak
def test_failover_right_after_the_leading_controller_was_killed_loses_nothing(begin):
    site = begin(controllers=3)
    load = site.load()
    time.sleep(STEADY_S)
    victim, since_ms = site.master(), now_ms()
    leader = site.leader
    leader.process.kill()
    victim.process.kill()
    first_acknowledged(load, since_ms, not_by=victim, seconds=120)
    leader.start()
    site.brokers.restart(victim)
    site.brokers.wait_until_complete()
    load.wait_for_more(count=100).stop()
    assert acknowledged_too_late(load, victim, since_ms) == []
    site.brokers.lose_nothing(load)


@pytest.mark.etcd
def test_cut_off_leader_answers_no_role_check_once_its_lead_has_lapsed(begin):
    site = begin(controllers=3)
    load = site.load()
    time.sleep(STEADY_S)
    leader = site.leader
    leader.process.pause()
    wait_until(
        lambda: any(each.serves() for each in site.controllers if each is not leader), seconds=120, what="a leader"
    )
    victim, since_ms = site.master(), now_ms()
    victim.process.kill()
    first_acknowledged(load, since_ms, not_by=victim, seconds=120)
    leader.process.resume()
    time.sleep(AFTER_S)
    site.brokers.restart(victim)
    site.brokers.wait_until_complete()
    load.wait_for_more(count=100).stop()
    assert acknowledged_too_late(load, victim, since_ms) == []
    site.brokers.lose_nothing(load)
