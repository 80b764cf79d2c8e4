"""Producers as they come, and a role address that is on the host of its master: what a client notices of a failover.

The producer polls routes each 30 s, so that it never learns a new address in time: it only reconnects.
"""

import contextlib
import time

import pytest
from peers.figures import print_figures
from peers.jars import V5_1, V5_5
from peers.lab import Lab
from peers.networks import Network, why_not
from peers.programs import cannot_run, require
from role_addressed import now_ms
from role_agents import HostAddressedSet, first_stored, longest_gap_s, stored, stored_too_late

pytestmark = [pytest.mark.java, pytest.mark.broad, pytest.mark.timeout(900)]

#: The first seconds of a producer are those of its compiler.
STEADY_S = 4
#: How long sending is watched after it went on.
AFTER_S = 2
#: Far more than on an idle machine, whose figures are printed.
GAP_MAX_S = 9
SEND_TIMEOUT_S = 3
RUNS = 3


@pytest.fixture
def begin(tmp_path):
    """Return what starts a set with its address, on hosts of a network; all of it ends with the test."""
    require("ip", "nft")
    if reason := why_not():
        cannot_run(reason)
    with contextlib.closing(Network()) as network, network.inside(), contextlib.closing(Lab(tmp_path)) as lab:
        yield lambda version=V5_5: HostAddressedSet(network, lab, version).start()


@pytest.mark.soak
@pytest.mark.parametrize("version", [V5_5, V5_1])
def test_producer_as_it_comes_notices_a_killed_master_for_a_moment_only(begin, capsys, version):
    site = begin(version)
    load, gaps = site.brokers.load(), []
    for _ in range(RUNS):
        time.sleep(STEADY_S)
        victim, since_ms = site.brokers.master, now_ms()
        victim.process.kill()
        first_stored(load, since_ms, not_by=victim)
        time.sleep(AFTER_S)
        gaps.append(longest_gap_s(load, since_ms))
        site.brokers.restart(victim)
        site.brokers.wait_until_complete()
        assert stored_too_late(load, victim, since_ms) == []
    load.stop()
    print_figures(
        capsys, f"role address on the host, {version}: {RUNS} kills: gaps {gaps} s, {len(load.failures())} failed sends"
    )
    assert max(gaps) < GAP_MAX_S
    # A send fails only where all of it takes longer than its timeout, as on a machine that is very busy.
    assert len(load.failures()) <= sum(gap > SEND_TIMEOUT_S for gap in gaps)
    site.brokers.lose_nothing(load)


@pytest.mark.parametrize("version", [V5_5, pytest.param(V5_1, marks=pytest.mark.soak)])
def test_thawed_master_acknowledges_nothing_after_its_successor_has(begin, capsys, version):
    site = begin(version)
    load, gaps = site.brokers.load(), []
    for _ in range(RUNS):
        time.sleep(STEADY_S)
        victim, since_ms = site.brokers.master, now_ms()
        victim.process.pause()
        first_stored(load, since_ms, not_by=victim)
        time.sleep(AFTER_S)
        gaps.append(longest_gap_s(load, since_ms))
        victim.process.resume()
        site.brokers.wait_until_complete()
        assert stored_too_late(load, victim, since_ms) == []
    load.stop()
    print_figures(
        capsys, f"role address on the host, {version}: {RUNS} freezes: gaps {gaps} s, {len(load.failures())} failed"
    )
    assert max(gaps) < GAP_MAX_S
    site.brokers.lose_nothing(load)


@pytest.mark.soak
def test_nothing_changes_for_clients_while_the_controller_is_away(begin):
    site = begin()
    load = site.brokers.load()
    time.sleep(STEADY_S)
    since_ms = now_ms()
    site.controller.process.kill()
    time.sleep(15)
    load.wait_for_more(count=100)
    assert longest_gap_s(load, since_ms) < SEND_TIMEOUT_S
    site.controller.start()
    site.brokers.wait_until_complete()
    load.wait_for_more(count=100).stop()
    assert load.failures() == []
    assert len({each.host for each in stored(load)}) == 1
    site.brokers.lose_nothing(load)
