"""Never two hosts with the address, whatever is late, lost, cut, paused or restarted; and one again soon after."""

from random import Random

import pytest
from simulated_site import CONTROLLERS, LEASE_MS, SimulatedSite

#: Simulated time of one run, and between two disturbances at most.
RUN_MS = 120_000
GAP_MS = 4000
#: A lease, the margin of a claim, a probe, and some lost messages.
QUIET_MS = 2 * LEASE_MS


def disturb(site, random):
    """Do one thing that happens to hosts, networks and controllers, most of it to the host that has the address."""
    holder = site.hosts[next(iter(site.holders()), site.master)]
    others = [site.hosts[name] for name in holder.others]
    host = random.choice([holder, holder, *others])
    match random.randrange(9):
        case 0 | 1:
            links = [frozenset((host.name, end)) for end in (CONTROLLERS, *host.others)]
            site.cut = set(random.sample(links, random.randint(1, len(links))))
        case 2:
            site.cut = set()
        case 3:
            site.leads = not site.leads
        case 4:
            host.runs_from_ms = site.now_ms + random.randint(50, 3 * LEASE_MS)
        case 5:
            host.restart()
        case 6:
            site.loss = random.choice([0, 0, 0.3])
            site.delay_ms_max = random.choice([2, 2, 300])
        case _:
            # A controller may come back for this alone.
            site.leads = True
            site.elect(random.choice(others).name)


def heal(site):
    site.cut, site.loss, site.delay_ms_max, site.leads = set(), 0.0, 2, True
    for host in site.hosts.values():
        host.runs_from_ms = 0


@pytest.mark.parametrize("hosts", [2, 3])
@pytest.mark.parametrize("seed", range(40))
def test_address_is_never_on_two_hosts_and_moves_with_rising_epochs(seed, hosts):
    random = Random(f"{seed}/{hosts}")
    site = SimulatedSite(random, hosts)

    def check():
        assert len(site.holders()) <= 1, (site.now_ms, site.holders(), site.phases())

    while site.now_ms < RUN_MS:
        site.run(site.now_ms + random.randint(10, GAP_MS), check)
        disturb(site, random)
    heal(site)
    site.run(site.now_ms + QUIET_MS, check)

    assert site.holders() == [site.master]
    assert [epoch for epoch, _ in site.taken] == sorted(epoch for epoch, _ in site.taken)
    by_epoch = {}
    assert all(by_epoch.setdefault(epoch, name) == name for epoch, name in site.taken)


def settled(hosts=2):
    site = SimulatedSite(Random(1), hosts)
    site.run(site.now_ms + 1000)
    assert site.holders() == ["host-1"]
    return site


@pytest.mark.parametrize("hosts", [2, 3])
def test_address_stays_where_it_is_while_all_controllers_are_away(hosts):
    site = settled(hosts)
    site.leads = False
    site.run(site.now_ms + 300_000, lambda: None if site.holders() == ["host-1"] else pytest.fail(str(site.now_ms)))


def test_host_that_is_cut_off_from_everybody_loses_the_address_within_a_lease():
    site = settled()
    site.cut = {frozenset(("host-1", CONTROLLERS)), frozenset(("host-1", "host-2"))}
    site.run(site.now_ms + LEASE_MS)
    assert site.holders() == []


def test_host_that_only_some_agents_reach_loses_the_address_before_another_one_takes_it():
    site = settled(hosts=3)
    site.cut = {frozenset(("host-1", CONTROLLERS))}
    site.run(site.now_ms + 20_000, lambda: None if site.holders() == ["host-1"] else pytest.fail(str(site.now_ms)))
    site.cut.add(frozenset(("host-1", "host-2")))
    site.elect("host-2")
    site.run(site.now_ms + 2 * LEASE_MS, lambda: None if len(site.holders()) <= 1 else pytest.fail(str(site.now_ms)))
    assert site.holders() == ["host-2"]


def test_address_moves_within_a_quarter_of_a_second_after_an_election_if_all_agents_answer():
    site = settled()
    site.elect("host-2")
    site.run(site.now_ms + 100 + 250)
    assert site.holders() == ["host-2"]


def test_address_of_a_host_without_an_agent_moves_after_one_lease():
    site = settled()
    site.hosts["host-1"].runs_from_ms = site.now_ms + 60_000
    site.elect("host-2")
    site.run(site.now_ms + LEASE_MS)
    assert site.holders() == []
    site.run(site.now_ms + 1200)
    assert site.holders() == ["host-2"]


def test_address_of_a_host_that_is_cut_off_from_controllers_only_moves_at_once():
    site = settled()
    site.cut = {frozenset(("host-1", CONTROLLERS))}
    site.elect("host-2")
    site.run(site.now_ms + 400)
    assert site.holders() == ["host-2"]


def test_agent_that_is_restarted_keeps_the_address():
    site = settled()
    site.hosts["host-1"].restart()
    site.run(site.now_ms + 10_000, lambda: None if site.holders() == ["host-1"] else pytest.fail(str(site.now_ms)))
