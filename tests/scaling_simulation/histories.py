"""What a simulated resize begins with, and what goes wrong in it: made from a seed."""

import random
from typing import Final, NamedTuple

from serving.shapes.scaling import ResizeWaits

#: Shorter than those of production, in the same order: histories are short, and polls are as long as they are.
WAITS: Final = ResizeWaits(
    producers_ms=48_000,
    stable_ms=33_000,
    confirm_ms=10_000,
    verify_ms=100_000,
    assign_ms=90_000,
    seed_ms=60_000,
    quiesce_ms=200_000,
    drain_ms=240_000,
    watch_ms=16_000,
    grown_watch_ms=70_000,
    pop_ms=36_000,
    process_ms=20_000,
    transaction_ms=70_000,
    timed_ms=100_000,
)


#: When an operator looks at the plan, groups leave, and the resize is requested.
PLANNED_MS: Final = 18_000
LEAVES_MS: Final = 25_000
START_MS: Final = 40_000


class Fault(NamedTuple):
    """One thing that goes wrong, or that somebody does."""

    kind: str
    #: Phase after whose first beginning it happens; blank: after the start of the resize.
    phase: str
    after_ms: int
    #: Which broker set, NameServer, group or producer.
    who: int = 0
    for_ms: int = 0
    #: A choice that the fault makes: which answer, which numbers.
    choice: int = 0

    def __str__(self):
        return (
            f"{self.kind} {self.after_ms} ms after {self.phase or 'the start'}: who={self.who} "
            f"for={self.for_ms} ms choice={self.choice}"
        )


class GroupSettings(NamedTuple):
    """A consumer group at the start."""

    kind: str
    clients: int = 1
    #: Messages that a client consumes of a queue at once.
    batch: int = 8
    #: Until then it consumes nothing.
    slow_until_ms: int = 0
    #: Nobody of it is there any more from then on; 0: it was there long ago. None: it stays.
    leaves_ms: int | None = None


class ResizeSettings(NamedTuple):
    """A world before anything goes wrong."""

    seed: int = 0
    sets: int = 1
    slaves: int = 1
    name_servers: int = 2
    before: int = 4
    target: int = 6
    is_ordered: bool = False
    #: New queues are locked instead of a pause of writes.
    is_gated: bool = False
    has_order_conf: bool = False
    #: NameServers give `orderTopicConf` to clients (orderMessageEnable).
    gives_order_conf: bool = False
    groups: tuple[GroupSettings, ...] = (GroupSettings("concurrent", 2),)
    #: Pause between two messages of each producer.
    producers_ms: tuple[int, ...] = (3_000, 5_000)
    #: Slaves copy topics and offsets so often.
    copy_ms: int = 10_000
    #: Share of the messages of each producer that are delivered later: delayed, timed or transactional.
    late_shares: tuple[float, ...] = (0.0, 0.0)
    accepts_late: bool = False
    #: Groups without members get some at the end.
    returns: bool = True
    #: The controller elects the masters itself; otherwise it knows them from routes.
    is_elected: bool = True
    #: NameServers are of this product, and tell who has fetched a route.
    tells_fetches: bool = False
    #: For how long an ordered topic may be without writes.
    pause_ms: int = 600_000
    #: One more set has the topic, and is down when the resize begins.
    has_absent: bool = False
    #: Brokers keep half messages where only time tells whether they are decided.
    uses_rocksdb: bool = False
    #: Messages from before are deleted.
    has_expired: bool = False
    #: Somebody has looked at the plan before.
    was_planned: bool = False
    #: How late slaves copy the log; a slave that leads has lost the rest. 0: what is acknowledged, all in sync have.
    log_lag_ms: int = 0


_OF_BROKERS: Final = {
    "restart_master": 6,
    "fail_over": 8,
    "slow_copies": 2,
    "slow_appends": 3,
    "stop_dispatch": 3,
    "expire": 2,
    "return_set": 4,
}
_OF_NAME_SERVERS: Final = {"stop_name_server": 3, "lose_registrations": 4, "empty_name_server": 1}
_OF_CLIENTS: Final = {
    "cut_producer": 6,
    "crash_consumer": 5,
    "join_consumer": 3,
    "join_group": 2,
    "stop_group": 4,
    "slow_group": 4,
}
_OF_CONTROLLER: Final = {
    "kill_controller": 8,
    "lose_answers": 5,
    "hide_clients": 2,
    "lose_actions": 3,
    "lose_action_answers": 3,
    "delay_actions": 3,
    "slow_rounds": 2,
    "set_clock": 3,
}
_OF_OPERATORS: Final = {"set_counts": 2, "abort": 4, "resume": 2, "waive": 1, "delete_topic": 1, "replace_set": 1}
#: Faults that keep a controller from what it wants to do.
HINDERS: Final = _OF_BROKERS.keys() | _OF_NAME_SERVERS.keys() | _OF_CONTROLLER.keys()
KINDS: Final = _OF_BROKERS | _OF_NAME_SERVERS | _OF_CLIENTS | _OF_CONTROLLER | _OF_OPERATORS

_GROW: Final = ("SEED", "READ_UP", "ASSIGN", "WRITE_UP", "VERIFY", "WRITE_DOWN", "QUIESCE", "DRAIN", "ROLLBACK")
_SHRINK: Final = (
    "WRITE_DOWN", "QUIESCE", "LATE", "DRAIN", "CONFIRM", "READ_DOWN", "WATCH", "REOPEN", "BLOCKED", "ROLLBACK",
)  # fmt: skip
_ORDERED: Final = ("PAUSE", "QUIESCE", "DRAIN", "CONFIRM", "SEED", "RESIZE", "UNPAUSE", "READ_DOWN", "WATCH", "VERIFY")
_GATED: Final = ("GATE", "SEED", "READ_UP", "WRITE_UP", "RELEASE", "VERIFY", "ROLLBACK")
_FAULTS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 5, 6)


def history_of(seed, profile=""):
    """Return the world and the faults of a seed; a profile fixes the kind: grow, shrink, ordered."""
    draw = random.Random(seed)
    kind = profile or draw.choice(("grow", "shrink", "shrink", "ordered", "gated"))
    before, target = _counts(draw, kind)
    is_ordered = kind in ("ordered", "gated")
    has_conf = kind == "ordered" and draw.random() < 0.3
    producers_ms = tuple(draw.choice((2_500, 4_000, 7_000, 31_000, 90_000)) for _ in range(draw.choice((1, 2, 3))))
    settings = ResizeSettings(
        seed=seed,
        sets=1 if is_ordered and not has_conf else draw.choice((1, 1, 2, 3)),
        slaves=draw.choice((0, 1, 1)),
        name_servers=draw.choice((1, 2, 2, 3)),
        before=before,
        target=target,
        is_ordered=is_ordered,
        is_gated=kind == "gated",
        has_order_conf=has_conf,
        gives_order_conf=has_conf,
        groups=tuple(_group(draw, is_ordered=is_ordered) for _ in range(draw.choice((1, 2, 2, 3)))),
        producers_ms=producers_ms,
        copy_ms=draw.choice((10_000, 60_000)),
        late_shares=tuple(0.0 if is_ordered else draw.choice((0.0, 0.0, 0.0, 0.1, 0.3, 1.0)) for _ in producers_ms),
        accepts_late=draw.random() < 0.3,
        returns=draw.random() < 0.7,
        is_elected=draw.random() < 0.7,
        tells_fetches=draw.random() < 0.4,
        was_planned=draw.random() < 0.5,
        pause_ms=draw.choice((600_000, 250_000)),
        has_expired=draw.random() < 0.2,
        has_absent=draw.random() < (0.3 if kind == "ordered" else 0.1),
        uses_rocksdb=draw.random() < 0.3,
        log_lag_ms=draw.choice((0, 0, 800)),
    )
    phases = {"grow": _GROW, "shrink": _SHRINK, "ordered": _ORDERED, "gated": _GATED}[kind]
    many = draw.choice(_FAULTS)
    # Some histories are about two kinds of faults in one phase.
    kinds = draw.choices(tuple(KINDS), tuple(KINDS.values()), k=2) if draw.random() < 0.3 else ()
    phase = draw.choice(phases) if draw.random() < 0.2 else ""
    return settings, tuple(_fault(draw, phases, kinds, phase) for _ in range(many))


def _counts(draw, kind):
    if kind == "gated":
        return draw.choice(((2, 4), (3, 6), (2, 6)))
    less, more = draw.choice(((2, 3), (2, 4), (3, 5), (4, 6)))
    grows = kind == "grow" or (kind == "ordered" and draw.random() < 0.6)
    return (less, more) if grows else (more, less)


def _group(draw, *, is_ordered):
    kinds = ("concurrent", "concurrent", "pull", "pop", "broadcast")
    kind = "orderly" if is_ordered else draw.choice(kinds)
    leaves_ms = draw.choice((0, LEAVES_MS)) if draw.random() < (0.05 if is_ordered else 0.15) else None
    if leaves_ms is not None and draw.random() < 0.3:
        kind = "orderly"
    elif leaves_ms is None and not is_ordered and draw.random() < 0.08:
        kind = "assigned"
    return GroupSettings(
        kind, draw.choice((1, 2, 2, 3)), draw.choice((1, 4, 8)), draw.choice((0, 0, 0, 0, 130_000, 220_000)), leaves_ms
    )


def _fault(draw, phases, kinds, phase):
    return Fault(
        kind=draw.choice(kinds) if kinds else draw.choices(tuple(KINDS), tuple(KINDS.values()))[0],
        phase=phase or draw.choice(("", *phases)),
        after_ms=int(draw.choice((0, 1_000, 3_000, 10_000, 30_000, 90_000)) * (0.5 + draw.random())),
        who=draw.randrange(6),
        for_ms=int(draw.choice((1_500, 6_000, 20_000, 60_000, 150_000)) * (0.5 + draw.random())),
        choice=draw.randrange(12),
    )
