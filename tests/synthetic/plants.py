"""Things to plant in a history, each with its truth."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from synthetic.plan import (
    MS,
    SECOND,
    BrokerKey,
    Cut,
    End,
    Freeze,
    Outage,
    PlannedEvent,
    Plant,
    TopicChange,
)


class Failover(NamedTuple):
    """A master died and another was elected; Unix us."""

    failover_id: str
    broker_name: str
    died_us: int
    detected_us: int
    started_us: int
    elected_us: int
    notified_us: int
    serves_us: int


class Group(NamedTuple):
    """Brokers to which something happened together."""

    brokers: tuple[BrokerKey, ...]
    from_us: int
    to_us: int


class Churner(NamedTuple):
    """A topic that was altered to and fro on one set: so many changes, so many of them back to what was before."""

    topic: str
    broker_name: str
    changes: int
    flips: int


class Flapper(NamedTuple):
    """A broker that left and came back, at these moments."""

    broker: BrokerKey
    downs_us: tuple[int, ...]


#: How a broker may be lost.
_ENDS = (End.PLANNED, End.CRASH, End.SILENT)


def renewal_outages(
    broker: BrokerKey, from_us: int, to_us: int, *, mean_up_us: int, mean_down_us: int, seed: int = 1
) -> Plant:
    """Plant outages by an alternating renewal process: exponential times up and down, ends of all kinds.

    Times down are at least two minutes, so that no server takes the return for a beat that came late.
    """
    random = Random(f"renewal {seed} {broker}")
    outages, at_us = [], from_us
    while True:
        at_us += int(random.expovariate(1 / mean_up_us)) + 10 * 60 * SECOND
        back_us = at_us + int(random.expovariate(1 / mean_down_us)) + 150 * SECOND
        if back_us >= to_us:
            return Plant(outages=tuple(outages))
        outages.append(Outage(broker, at_us, back_us, random.choice(_ENDS)))
        at_us = back_us


def flaps(broker: BrokerKey, first_us: int, *, every_us: int, count: int, down_us: int = 30 * SECOND) -> Plant:
    """Plant a broker that crashes regularly."""
    downs = tuple(first_us + number * every_us for number in range(count))
    outages = tuple(Outage(broker, at_us, at_us + down_us, End.CRASH) for at_us in downs)
    return Plant(outages=outages, truth={"flaps": (Flapper(broker, downs),)})


def storm(brokers: Sequence[BrokerKey], at_us: int, *, within_us: int = 20 * SECOND, seed: int = 1) -> Plant:
    """Plant a restart of many brokers at once: they crash together, and are back within so many us."""
    random = Random(f"storm {seed} {at_us}")
    back = [at_us + 60 * SECOND + random.randrange(within_us) for _ in brokers]
    outages = tuple(Outage(broker, at_us, to_us, End.CRASH) for broker, to_us in zip(brokers, back, strict=True))
    return Plant(outages=outages, truth={"storms": (Group(tuple(brokers), min(back), max(back)),)})


def correlated_failure(brokers: Sequence[BrokerKey], from_us: int, to_us: int) -> Plant:
    """Plant brokers that are down together, as if they stood in one rack."""
    outages = tuple(Outage(broker, from_us, to_us, End.SILENT) for broker in brokers)
    return Plant(outages=outages, truth={"correlated_failures": (Group(tuple(brokers), from_us, to_us),)})


def cut(broker: BrokerKey, server: str, from_us: int, to_us: int) -> Plant:
    """Plant a server that hears nothing of a broker, while the others do."""
    return Plant(cuts=(Cut(broker, server, from_us, to_us),))


def churner(topic: str, broker_name: str, first_us: int, *, every_us: int, changes: int) -> Plant:
    """Plant a topic that is altered between 8 and 16 queues and back; it has to be on the set, with 8."""
    counts = [16 if number % 2 == 0 else 8 for number in range(changes)]
    altered = tuple(
        TopicChange(first_us + number * every_us, topic, broker_name, count, count)
        for number, count in enumerate(counts)
    )
    return Plant(
        topic_changes=altered, truth={"churners": (Churner(topic, broker_name, changes, max(0, changes - 1)),)}
    )


def failover(broker_name: str, died_us: int, *, controller: str, epoch: int, cluster: str = "DefaultCluster") -> Plant:
    """Plant the death of a set's master and the election of broker id 1, as one controller tells of it."""
    random = Random(f"failover {broker_name} {died_us}")
    # It is suspect after 3 s and has 300 ms for an answer; then it is noticed at the next look.
    detected_us = died_us + random.randrange(3_300 * MS, 3_500 * MS)
    started_us = detected_us + random.randrange(1 * MS, 5 * MS)
    elected_us = started_us + random.randrange(5 * MS, 30 * MS)
    notified_us = elected_us + random.randrange(1 * MS, 50 * MS)
    serves_us = notified_us + random.randrange(50 * MS, 300 * MS)
    failover_id = f"{cluster}/{broker_name}/{epoch}"
    about = {"cluster": cluster, "broker_name": broker_name, "failover_id": failover_id, "master_epoch": epoch}
    old = about | {"broker_id": 0, "old_master": 0}
    new = about | {"broker_id": 1, "new_master": 1}
    where = {"broker_addr": f"{broker_name}-1:10911"}
    silent_ms = (detected_us - died_us) // MS
    silent = {"silent_ms": silent_ms, "last_heartbeat_time": died_us, "cause": "timeout", "timeout_ms": 3_300}
    events = (
        (detected_us, "failure_detected", old | silent),
        (started_us, "election_started", old | {"cause": "timeout"}),
        (elected_us, "elected", old | new | where | {"result": "new_master_elected", "sync_state_set": [1]}),
        (notified_us, "role_notified", new | {"result": "ok"}),
        (serves_us, "master_serves", new | where | {"duration_ms": (serves_us - elected_us) // MS}),
    )
    truth = Failover(failover_id, broker_name, died_us, detected_us, started_us, elected_us, notified_us, serves_us)
    return Plant(
        happenings=tuple(PlannedEvent(at_us, controller, "controller", what, values) for at_us, what, values in events),
        truth={"failovers": (truth,)},
    )


def refused_election(
    broker_name: str, at_us: int, master: int, *, controller: str, cause: str = "operator", cluster: str
) -> Plant:
    """Plant a request for a master that changes nothing: it is refused, or names the one that leads."""
    about = {"cluster": cluster, "broker_name": broker_name, "old_master": master, "cause": cause}
    kept = about | {"broker_id": master, "new_master": master, "master_epoch": 1, "result": "keep_current_master"}
    return Plant(
        happenings=(
            PlannedEvent(at_us - 2 * MS, controller, "controller", "election_started", about),
            PlannedEvent(at_us, controller, "controller", "elected", kept | {"duration_ms": 2}),
        )
    )


def offset_samples(
    server: str, topic: str, start_us: int, tps: Sequence[float], *, group: str = "group", every_us: int = 60 * SECOND
) -> Plant:
    """Plant what a controller samples of a topic and a group that keeps up: one sample for each rate."""
    happenings, total = [], 0
    for number, rate in enumerate(tps):
        total += int(rate * every_us / SECOND)
        values = {"cluster": "DefaultCluster", "topic": topic, "max_offset": total, "tps": float(rate)}
        of_group = values | {"group": group, "consumer_offset": total, "consumers": 4}
        at_us = start_us + number * every_us
        happenings += [
            PlannedEvent(at_us, server, "offset_sample", "sample", values),
            PlannedEvent(at_us, server, "offset_sample", "sample", of_group),
        ]
    return Plant(happenings=tuple(happenings))


class Resize(NamedTuple):
    """A resize of a topic: when it entered which phase, Unix us; the last one is how it ended, if it did."""

    operation_id: str
    topic: str
    phases: tuple[tuple[int, str], ...]


#: How an operation ends -> what is recorded of it.
_RESIZE_ENDS = {"DONE": "verified", "ABORTED": "rolled_back", "REJECTED": "rejected"}


def resize(
    controller: str,
    topic: str,
    created_us: int,
    phases: Sequence[tuple[str, int]],
    *,
    sets: Mapping[str, tuple[str, int, int]],
    **values: Any,
) -> Plant:
    """Plant a resize as one controller tells of it: its phases, and for how many us it was in each of them.

    `sets`: by broker set its cluster, the queues before, and those wanted. What comes after DONE is not told.
    """
    about = {
        "operation_id": f"{topic}.{created_us}",
        "topic": topic,
        "kind": "grow",
        "reopened": 0,
        "created_time": created_us,
        "broker_names": list(sets),
        "set_clusters": [cluster for cluster, _, _ in sets.values()],
        "set_writes": [before for _, before, _ in sets.values()],
        "set_targets": [target for _, _, target in sets.values()],
        **values,
    }
    happenings = [PlannedEvent(created_us, controller, "scaling", "plan", about | {"step": "PLANNED"})]
    at_us, former, former_us = created_us, "PLANNED", phases[0][1]
    entered = [(created_us, "PLANNED")]
    for step, in_it_us in phases[1:]:
        at_us += former_us
        told = {"step": step, "former_step": former, "duration_ms": former_us // MS, "evidence": [f"{former} is over"]}
        what = _RESIZE_ENDS.get(step, "step_started")
        happenings.append(PlannedEvent(at_us, controller, "scaling", what, about | told))
        entered.append((at_us, step))
        former, former_us = step, in_it_us
    truth = Resize(about["operation_id"], topic, tuple(entered))
    return Plant(happenings=tuple(happenings), truth={"resizes": (truth,)})


def scaling_decisions(controller: str, topic: str, decided: Sequence[tuple[int, str, str | None]]) -> Plant:
    """Plant what an autoscaler decided: when, what, and by what finding."""
    return Plant(
        happenings=tuple(
            PlannedEvent(at_us, controller, "scaling_decision", what, {"topic": topic, "finding": finding})
            for at_us, what, finding in decided
        )
    )


def role_address_moved(
    failover: Failover, address: str, given_us: int, after_us: Mapping[str, int | None], *, is_checked: bool = True
) -> Plant:
    """Plant a role address that clients get from NameServers, and when each sees it lead to broker id 1.

    `after_us`: so many us after the election; None: the NameServer does not see it, as none does without `is_checked`.
    """
    cluster, name = failover.failover_id.split("/")[0], failover.broker_name
    about = {"cluster": cluster, "broker_name": name, "broker_id": 0, "role_address": address}
    values = {**about, "is_checked": is_checked}
    led_to = {"broker_addr": f"{name}-1:10911", "former_addr": f"{name}-0:10911"}
    given = [PlannedEvent(given_us, server, "role_address", "given", values) for server in after_us]
    moved = [
        PlannedEvent(failover.elected_us + us, server, "role_address", "leads", values | led_to)
        for server, us in after_us.items()
        if us is not None
    ]
    return Plant(happenings=tuple(given + moved))


class Spell(NamedTuple):
    """A broker behaved unlike itself; Unix us."""

    broker: BrokerKey
    from_us: int
    to_us: int


def slow_spell(broker: BrokerKey, from_us: int, to_us: int, *, every_us: int, still_us: int) -> Plant:
    """Plant a broker that stands still again and again: what it would have said meanwhile does not come.

    If `still_us` is its period and `every_us` two of them, its intervals are twice as long as they use to be.
    """
    stills = tuple(Freeze(broker, at_us, at_us + still_us) for at_us in range(from_us, to_us, every_us))
    return Plant(freezes=stills, truth={"spells": (Spell(broker, from_us, to_us),)})
