"""Which slaves copy the offsets of their masters, and that a manager says so: those of 5.5.0 do not, 5.5.1's do."""

import contextlib

import pytest
from java_pairs import FAST, SOON_S, committed, lone_broker, manager_of
from peers.jars import V5_5, V5_5_1
from peers.lab import Lab
from peers.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(900)]

#: A slave that has not changed for longer copies nothing (180 s), on a slow machine.
KNOWN_WITHIN_S = 300


def a_set(lab, namesrv, version):
    """Start a master and its slave, and clients that keep the offset of a group moving."""
    name = f"b{version.replace('.', '')}"
    master = lone_broker(lab, namesrv, version, name)
    slave = lone_broker(lab, namesrv, version, name, broker_id=1)
    clients = {"namesrv": [namesrv.address], "topic": name, "version": version}
    lab.load(f"load-{name}", **clients | {"interval-ms": 20, "poll-ms": 200}).ready()
    # A group has one subscription: each set has its own.
    lab.consumer(f"readers-{name}", group=name, **clients | FAST).ready()
    wait_until(lambda: (committed(master, name, name) or 0) > 100, seconds=SOON_S, what="a commit")
    return name, slave


def test_a_slave_of_5_5_1_copies_offsets_and_one_of_5_5_0_does_not(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as lab:
        namesrv = lab.name_server()
        sets = {version: a_set(lab, namesrv, version) for version in (V5_5, V5_5_1)}
        manager = manager_of(lab, namesrv_addr=namesrv.address)

        def copies():
            rows = manager.get("/v1/offsets/sets").body["sets"]
            return {row["brokerName"]: [replica["copies"] for replica in row["replicas"]] for row in rows}

        name, slave = sets[V5_5_1]
        before = committed(slave, name, name) or 0
        wait_until(lambda: (committed(slave, name, name) or 0) > before, seconds=SOON_S, what="it copies")
        expected = {sets[V5_5][0]: [False], sets[V5_5_1][0]: [True]}
        wait_until(lambda: copies() == expected, seconds=KNOWN_WITHIN_S, what=lambda: f"{expected}, not {copies()}")
        events = lambda: manager.events("replica_copies_nothing")  # noqa: E731
        (told,) = wait_until(events, seconds=SOON_S, what="it is told")
        assert (told["broker"], "5.5.1" in told["advice"]) == (sets[V5_5][0], True)
