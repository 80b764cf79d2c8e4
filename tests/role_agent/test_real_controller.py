"""Our controller, agents on hosts of their own, and hand-made brokers: the address follows the elections."""

import contextlib
import time

import pytest
from agent_sites import LEASE_S, Site
from peers.controllers import OurController
from peers.figures import print_figures
from peers.lab import Lab
from peers.networks import Network
from peers.replicas import RemoteReplica
from peers.waiting import holds_for, wait_until
from peers.wire import SUCCESS

ROLE_CHECK_PORT = 9879
#: A frozen broker is replaced after 3.1 s; a busy machine takes longer for everything.
LONG_S = 60


class ControlledSite:
    """A set of two: each broker is a `Replica` for the controller, and a process that answers clients."""

    def __init__(self, network, lab, folder):
        self.controller = lab.kept(OurController(folder, bindAddress="0.0.0.0", roleCheckPort=ROLE_CHECK_PORT))
        self.controller.start()
        wait_until(self.controller.serves, seconds=LONG_S, what="the controller serves")
        self.site = Site(network, folder, controllers=[f"{Network.server}:{ROLE_CHECK_PORT}"])
        address = f"{Network.server}:{self.controller.port}"
        self.replicas = [RemoteReplica(address, "broker-a", each.host) for each in self.site.hosts]

    def start(self):
        for each in self.replicas:
            each.join()
            # It changes to master as soon as it is elected; nobody queries it before.
            each.is_master = True
        first = self.replicas[0]
        assert first.elect().code == SUCCESS
        ids = [each.broker_id for each in self.replicas]
        assert ids == [each.broker_id for each in self.site.hosts]
        assert first.report(ids, master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
        wait_until(
            lambda: self.controller.set_state("broker-a").alive == set(ids), seconds=LONG_S, what="both brokers alive"
        )
        self.site.start()
        # Until two heartbeats came nobody knows how often they come.
        time.sleep(2)
        return self

    def kill_master(self):
        self.site.hosts[0].broker.kill()
        self.replicas[0].die()

    def freeze_master(self):
        self.site.hosts[0].broker.pause()
        self.replicas[0].answers = lambda _request: None
        self.replicas[0].stop_beating()

    def close(self):
        for each in self.replicas:
            each.die()
        self.site.close()


@pytest.fixture
def controlled(network, tmp_path):
    with contextlib.closing(Lab(tmp_path)) as lab, network.inside():
        controlled = ControlledSite(network, lab, tmp_path)
        try:
            yield controlled.start()
        finally:
            controlled.close()


@pytest.mark.parametrize("fail", ["kill_master", "freeze_master"])
def test_address_follows_an_election_and_no_session_stays_with_the_old_master(controlled, capsys, fail):
    client = controlled.site.client()
    assert client.last == "broker-2"
    start = time.perf_counter()
    getattr(controlled, fail)()
    wait_until(lambda: client.last == "broker-3", seconds=LONG_S, what="an answer of the new master")
    print_figures(capsys, f"role address: {fail}, our controller: longest gap {client.longest_gap_s(start):.2f} s")
    assert controlled.controller.set_state("broker-a").epochs == (2, 2)
    assert controlled.site.holders() == [3]
    assert controlled.site.hosts[1].status()["masterEpoch"] == 2
    count = len(client.answers)
    if fail == "freeze_master":
        controlled.site.hosts[0].broker.resume()
    wait_until(lambda: len(client.answers) > count + 50, seconds=LONG_S, what="more answers")
    assert {name for _, name in client.answers[count:]} == {"broker-3"}


def test_address_stays_while_the_controller_is_away_and_follows_it_again_afterwards(controlled):
    client = controlled.site.client()
    controlled.controller.process.kill()
    holds_for(lambda: controlled.site.holders() == [2], seconds=3 * LEASE_S, what="the address on host 2")
    assert client.failures == []
    controlled.controller.start()
    controlled.site.hosts[0].agent.wait_for('"controllers_answer"', seconds=LONG_S)
    wait_until(
        lambda: controlled.controller.set_state("broker-a").alive == {1, 2}, seconds=LONG_S, what="both brokers alive"
    )
    time.sleep(2)
    controlled.kill_master()
    wait_until(lambda: client.last == "broker-3", seconds=LONG_S, what="an answer of the new master")
    assert controlled.site.holders() == [3]
