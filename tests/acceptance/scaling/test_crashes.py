"""Controllers and masters are killed in the middle of resizes, which end as if nothing had happened."""

import contextlib

import pytest
from peers.etcd import running_etcd
from peers.waiting import wait_until
from resize_site import GROWN, SHRUNK, ScalingClient, described, evidence_of, phases_of

pytestmark = [pytest.mark.java, pytest.mark.soak]

#: Phases that a controller can be killed in: the others end with the round that begins them.
KILLED_IN = {
    "SEED", "READ_UP", "ASSIGN", "WRITE_UP", "VERIFY", "WRITE_DOWN", "QUIESCE", "LATE", "DRAIN", "CONFIRM",
    "READ_DOWN", "WATCH",
}  # fmt: skip


def test_controller_killed_in_every_phase_resumes(site):
    traffic = site.traffic
    grown, shrunk = site.make_topic("CrashGrow", 4), site.make_topic("CrashShrink", 8)
    groups = [site.consume(topic, kind, from_="FIRST_OFFSET") for topic in (grown, shrunk) for kind in ("push", "lite")]
    for topic in (grown, shrunk):
        traffic.send(topic, topic=topic, interval_ms=20)
        traffic.wait_for_acknowledged(50, producer=topic)
    # They keep the shrink in LATE.
    traffic.send("crash-late", topic=shrunk, queue=7, broker="broker-a", delay_level=2, count=1)
    controller = site.new_controller("crashing")
    client = ScalingClient(controller).ready()
    operations = [client.start(grown, 8, waits={"grownWatchMs": 3000}), client.start(shrunk, 4)]

    killed_in = []

    def next_phase():
        for each in operations:
            phase = (client.operation(each) or {}).get("phase")
            if phase in KILLED_IN and phase not in killed_in:
                return phase
        ended = [(client.operation(each) or {}).get("phase") for each in operations]
        return "DONE" if ended == ["DONE", "DONE"] else None

    while (phase := wait_until(next_phase, seconds=120, what="another phase")) != "DONE":
        controller.process.kill()
        killed_in.append(phase)
        controller.start()
    grow, shrink = map(client.operation, operations)
    for topic in (grown, shrunk):
        traffic.wait_for_acknowledged(50, producer=topic)
        traffic.stop(topic)
    traffic.wait_until_consumed(groups)

    assert set(killed_in) == KILLED_IN
    assert phases_of(grow) == GROWN
    assert phases_of(shrink) == SHRUNK
    assert site.is_everywhere(grown, 8)
    assert site.is_everywhere(shrunk, 4)
    for group in groups:
        assert traffic.verdict([group])[group].missing == ()


@pytest.mark.etcd
def test_other_controller_goes_on_when_the_leader_is_killed(site):
    topic, traffic = site.make_topic("Led", 8), site.traffic
    group = site.consume(topic, "push", from_="FIRST_OFFSET")
    traffic.send("led", topic=topic, interval_ms=20)
    traffic.wait_for_acknowledged(50, producer="led")
    with running_etcd(site.lab.folder / "etcd") as etcd:
        shared = {"controllerStore": "etcd", "etcdEndpoints": ";".join(etcd.endpoints), "controllerGroup": "resizes"}
        controllers = [site.new_controller(name, controllerId=name, **shared) for name in ("led-0", "led-1")]
        with contextlib.ExitStack() as closing:
            for each in controllers:
                closing.callback(end, each)
            client = ScalingClient(*controllers).ready()
            operation_id = client.start(topic, 4)
            for phase in ("QUIESCE", "READ_DOWN"):
                client.wait_for_phase(operation_id, phase)
                leader = next(each for each in controllers if ScalingClient(each).call("GET", "operations")[0] == 200)
                leader.process.kill()
                leader.start()
            operation = client.wait_until_done(operation_id)
    traffic.stop("led")
    traffic.wait_until_consumed([group])

    assert phases_of(operation) == SHRUNK
    assert site.is_everywhere(topic, 4)
    assert traffic.verdict([group])[group].missing == ()


def end(controller):
    if controller.process.running:
        controller.process.kill()


def test_shrink_begins_anew_with_the_master_that_replaces_a_killed_one(site):
    """The set is one of the controller's; both replicas have every acknowledged message."""
    if site.is_4_9 or site.version == "5.1.4":
        pytest.skip("the newest release is enough")
    topic, traffic, controller = "Failover", site.traffic, site.controller
    replicas = [
        site.lab.broker(
            "broker-r", label=f"broker-r-{n}", namesrv=site.namesrv_addresses, **controller.broker_settings()
        ).start()
        for n in range(2)
    ]
    for each in replicas:
        each.ready()

    def state():
        return controller.set_state("broker-r")

    wait_until(lambda: state() and state().in_sync == {1, 2}, seconds=60, what="both are in sync")
    before = state()
    master = next(each for each in replicas if each.address == before.addresses[before.master])
    site.others["broker-r"] = master
    site.make_topic(topic, 8, brokers=["broker-r"])
    groups = [site.consume(topic, kind, from_="FIRST_OFFSET") for kind in ("push", "lite")]
    traffic.send("failover", topic=topic, interval_ms=20)
    traffic.wait_for_acknowledged(100, producer="failover")

    operation_id = site.start(topic, 4, waits={"processMs": 5000})
    site.wait_for_phase(operation_id, "DRAIN")
    master.process.kill()
    operation = site.wait_until_done(operation_id, seconds=180)
    site.others["broker-r"] = next(each for each in replicas if each is not master)
    traffic.wait_for_acknowledged(50, producer="failover")
    traffic.stop("failover")
    traffic.wait_until_consumed(groups)

    phases = phases_of(operation)
    assert phases.count("QUIESCE") == 2, phases
    assert any("leads broker-r instead of" in each for each in evidence_of(operation, "DRAIN")), described(operation)
    assert site.counts(topic, "broker-r") == {"broker-r": (4, 4)}
    for group in groups:
        assert traffic.verdict([group])[group].missing == ()
