"""Failovers of a set with a role address while something else fails too, one after the other under one load.

The rules: once a broker has acknowledged a send in a master epoch, none acknowledges one in an older epoch; no
controller answers `up` about the master of an older epoch, or about two brokers of one epoch; slaves get in sync by
themselves, but for one in 50 runs; at the end everything that was acknowledged can be read.
"""

import contextlib
import random
import time

import pytest
from measured import note
from peers.figures import print_figures
from peers.jars import V5_5
from peers.lab import Lab
from peers.networks import Network, why_not
from peers.programs import cannot_run, require
from role_agent_faults import HOST_FAULTS, HOST_MASTER_FAULTS
from role_agents import ROLE_CHECK_PORT, HostAddressedSet
from role_check_record import RoleCheckRecord
from role_faults import MASTER_FAULTS, SITE_FAULTS, Drawn, MasterThawsAtTheElection, NothingElse
from switched import SwitchedSet
from watched_sends import WatchedSet, restarts_max

pytestmark = [pytest.mark.java, pytest.mark.etcd, pytest.mark.soak]

BROKERS = 3
#: Producers as they come; the second one sends the messages of each of its threads in order.
LOADS = {"load": {"threads": 4}, "ordered": {"threads": 2, "ordered": 1}}
INTERVAL_MS = 100
#: A reader goes through the whole topic after so many runs.
READ_AFTER_RUNS = 20


@contextlib.contextmanager
def behind_haproxy(folder, *, records_roles=True):
    """Start a set with its address, three controllers, three members of etcd and HAProxy, and send to it."""
    require("haproxy")
    with contextlib.closing(Lab(folder)) as lab:
        site = SwitchedSet(lab, folder, count=BROKERS, controllers=3, etcd_members=3)
        checks = [f"127.0.0.1:{port}" for port in site.check_ports if records_roles]
        with contextlib.closing(site), watched(site.start(), site.load, checks) as watched_set:
            yield watched_set


@contextlib.contextmanager
def on_the_brokers_hosts(folder, *, records_roles=True):
    """Start a set whose address is on the host of its master, with an agent on each, and send to it."""
    require("ip", "nft")
    if reason := why_not():
        cannot_run(reason)
    with contextlib.closing(Network()) as network, network.inside(), contextlib.closing(Lab(folder)) as lab:
        site = HostAddressedSet(network, lab, V5_5).start()
        checks = [f"{Network.server}:{ROLE_CHECK_PORT}"] if records_roles else []
        with watched(site, site.brokers.load, checks) as watched_set:
            yield watched_set


@contextlib.contextmanager
def watched(site, load, check_addresses):
    broker_ids = range(1, len(site.brokers.brokers) + 1)
    with contextlib.closing(RoleCheckRecord(check_addresses, site.brokers.name, broker_ids)) as role_checks:
        loads = [load(name, **{"interval-ms": INTERVAL_MS} | options) for name, options in LOADS.items()]
        yield WatchedSet(site, loads, role_checks)


@contextlib.contextmanager
def noted(text):
    """Add a text to the message of whatever is raised."""
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


def fail_again_and_again(watched, runs, master_faults, others, *, capsys):
    """Run so many drawn faults, each from a complete set to a complete one, and check all acknowledgements."""
    seed = random.randrange(2**32)
    for number in range(1, runs + 1):
        watched.wait_until_complete()
        drawn = Drawn.draw(watched, random.Random(f"{seed}/{number}"), master_faults, others)
        named = f"seed {seed}, run {number}: {drawn}"
        began = time.perf_counter()
        with noted(named):
            drawn.run()
            watched.wait_until_complete()
            print_figures(capsys, f"{named}: complete after {time.perf_counter() - began:.1f} s")
            problems = watched.problems()
            assert not problems, "\n".join(problems)
            assert watched.restarted_slaves <= restarts_max(number), "slaves that stay out of sync"
            if number % READ_AFTER_RUNS == 0:
                watched.lose_nothing()
    watched.stop()
    watched.lose_nothing()
    record = watched.record
    assert not watched.role_checks.is_unanswered, "no controller ever answered that a broker is the master"
    return (
        f"{runs} runs, {record.count} sends acknowledged in {record.epochs} epochs, none of an older one after a newer "
        f"one, 0 lost; sends failed: {watched.failures}; {watched.role_checks.ups} role checks answered up, none for a "
        f"superseded master; {watched.restarted_slaves} slaves restarted by hand; seed {seed}"
    )


@pytest.mark.parametrize(
    "runs", [pytest.param(20, marks=pytest.mark.timeout(3600)), pytest.param(200, marks=pytest.mark.timeout(28_800))]
)
def test_no_older_epoch_acknowledges_after_a_newer_one_behind_haproxy(tmp_path, capsys, runs):
    with behind_haproxy(tmp_path) as watched_set:
        figures = fail_again_and_again(watched_set, runs, MASTER_FAULTS, SITE_FAULTS, capsys=capsys)
    note("role address faults", "HAProxy", figures)


@pytest.mark.timeout(3600)
def test_no_older_epoch_acknowledges_after_a_newer_one_with_the_address_on_its_host(tmp_path, capsys):
    with on_the_brokers_hosts(tmp_path) as watched_set:
        figures = fail_again_and_again(watched_set, 20, HOST_MASTER_FAULTS, HOST_FAULTS, capsys=capsys)
    note("role address faults", "on the host", figures)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("site", "named"), [(behind_haproxy, "HAProxy"), (on_the_brokers_hosts, "on the host")])
def test_master_that_thaws_while_its_successor_is_elected_acknowledges_nothing_alone(tmp_path, capsys, site, named):
    # Who else checks roles would be waited for as well.
    with site(tmp_path, records_roles=False) as watched_set:
        figures = fail_again_and_again(watched_set, 12, (MasterThawsAtTheElection,), (NothingElse,), capsys=capsys)
    note("role address faults, thawed at the election", named, figures)
