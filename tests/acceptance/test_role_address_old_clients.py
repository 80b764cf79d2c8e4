"""Java clients 4.9.7 behind the HAProxy of a role address, whose sessions end by a reset."""

import contextlib
import time

import pytest
from peers.jars import V4_9, V5_5
from peers.lab import Lab
from peers.networks import Network, why_not
from peers.programs import cannot_run, require
from peers.waiting import wait_until
from role_addressed import AS_IT_COMES, RoleAddressedSet, first_acknowledged, now_ms

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(900)]

STEADY_S = 4
#: A pull waits for its answer so long, on a connection whose end the client has not noticed.
PULL_TIMEOUT_S = 30


@pytest.fixture
def site(tmp_path):
    """Yield a set with its address, in a network of its own; all of it ends with the test."""
    require("haproxy", "nft", "ip")
    if reason := why_not():
        cannot_run(reason)
    with contextlib.closing(Network()) as network, network.inside(), contextlib.closing(Lab(tmp_path)) as lab:
        site = RoleAddressedSet(lab, tmp_path, V5_5).start()
        site.haproxy.reset_sessions()
        yield site


def test_producer_and_consumer_4_9_notice_that_their_sessions_to_a_killed_master_have_ended(site):
    options = {"namesrv": [site.namesrv.address], "topic": site.brokers.topic, "version": V4_9}
    load = site.lab.load("old-load", **options, **AS_IT_COMES).ready()
    consumer = site.lab.consumer("old-consumer", **options)
    time.sleep(STEADY_S)
    wait_until(consumer.got, seconds=PULL_TIMEOUT_S, what="a message")
    victim, since_ms = site.master(), now_ms()
    victim.process.kill()
    at_ms = first_acknowledged(load, since_ms, not_by=victim)
    new = {each.key for each in load.acknowledged() if each.unix_ms >= at_ms}
    wait_until(lambda: new & consumer.got(), seconds=PULL_TIMEOUT_S / 2, what="a message that the new master took")
    assert load.failures() == []
    load.stop()
    site.brokers.lose_nothing(load)
