"""What is done to a simulated world: a plan made from a seed, each fault ending by itself."""

import random
from typing import Final, NamedTuple

#: When the last faults begin: soon in most histories, later in those that are about what a controller does once it has
#: run for a while.
HORIZONS_MS: Final = (8_000, 8_000, 11_000, 18_000)
#: How many histories have brokers that confirm on a fixed number of replicas, or that are known by names; and how many
#: pairs of a controller and a broker have no way from the first to the second.
FIXED_CONFIRMATIONS, NAMED, BLOCKED = 0.2, 0.15, 0.04
#: No fault lasts longer.
_LONGEST_MS: Final = 9_000


class Fault(NamedTuple):
    """One thing that goes wrong, or that an operator does."""

    at_ms: int
    kind: str
    #: Which broker or controller, and which other one.
    who: int
    other: int = 0
    #: How long it lasts, or how much later something comes.
    for_ms: int = 0

    def __str__(self) -> str:
        return f"{self.at_ms:>6} ms  {self.kind} who={self.who} other={self.other} for={self.for_ms} ms"


class Settings(NamedTuple):
    """A world before anything goes wrong."""

    #: `safe`: everything must hold. `calm`: besides, nothing that happens is a reason for another master.
    #: `unclean`: an operator allows to lose messages. `lost`: the store forgets what it said it had. `late`: it forgets
    #: everything once, and who knows the highest epoch comes back late. `liar`: somebody claims epochs of other sets.
    profile: str = "safe"
    brokers: int = 3
    heartbeat_timeout_ms: int = 10_000
    #: When in each second a broker beats, and when each controller is there.
    broker_phases_ms: tuple[int, ...] = (100, 400, 700)
    controllers: int = 3
    controller_phases_ms: tuple[int, ...] = (0, 17, 34)
    #: On how many replicas brokers confirm (inSyncReplicas); 0: on all in sync (allAckInSyncStateSet).
    confirmed_on: int = 0
    #: Brokers are known by names, not by the numbers of their hosts.
    are_named: bool = False
    #: Controllers that never reach the ports of a host, with what comes of it: ((controller, host), how).
    blocked: tuple[tuple[tuple[int, int], str], ...] = ()
    #: Each host has a broker of each of so many sets.
    sets: int = 1
    #: Each controller is on a host of brokers.
    are_beside: bool = False
    #: Operators switch over and restart sets; clients are led by role checks.
    is_planned: bool = False
    #: Then nothing more goes wrong, and nothing is mended but a healthy core, which must find masters; 0 for never.
    core_ms: int = 0

    @property
    def broker_properties(self) -> bytes:
        """What a broker answers to GET_BROKER_CONFIG (26)."""
        if self.confirmed_on:
            return b"allAckInSyncStateSet=false\ninSyncReplicas=%d\n" % self.confirmed_on
        return b"allAckInSyncStateSet=true\n"


_OF_BROKERS: Final = {
    "crash_broker": 8,
    "freeze_broker": 5,
    "pause_broker": 2,
    "cut_broker_from_controllers": 4,
    "cut_broker_from_controller": 2,
    "cut_broker_from_broker": 4,
    "reset_connection": 2,
    "lose_request": 2,
    "delay_request": 2,
    "repeat_request": 2,
    "delay_report": 4,
    "stray_election": 2,
    "lose_answer": 3,
    "lose_notice": 2,
    "delay_notice": 2,
    "lag": 3,
    "block_queries": 3,
    "mute_broker": 3,
    "copy_broker": 2,
}
_OF_CONTROLLERS: Final = {
    "crash_controller": 4,
    "freeze_controller": 4,
    "cut_controller_from_store": 3,
    "stop_store": 2,
    "fail_commit": 2,
    "delay_commit": 4,
    "lose_commit_answer": 4,
    "lose_store_answer": 3,
    "delay_store_answer": 2,
    "slow_store": 2,
    "freeze_in_call": 2,
    "renew_and_cut": 2,
    "grant_and_cut": 2,
    "set_clock": 1,
    "resign": 1,
}
_OF_OPERATORS: Final = {"designate": 3, "clean": 2}
_OF_DISKS: Final = {
    "lose_log": 8,
    "roll_back_log": 6,
    "cut_log": 8,
    "lose_all_logs": 2,
    "roll_back_all_logs": 2,
    "cut_all_logs": 6,
    "cut_requests": 3,
}
_PLANNED: Final = {
    "switch_over": 9,
    "restart_set": 4,
    "crash_host": 4,
    "freeze_host": 2,
    "cut_host": 4,
    "cut_requests": 3,
}

_LIES: Final = {"lie": 12, "move_from_another_set": 12}
#: What a history of `late` has once each, in this order.
_LATE: Final = ("crash_master", "lose_store_and_master")

KINDS: Final = {
    "safe": _OF_BROKERS | _OF_CONTROLLERS | _OF_OPERATORS,
    #: As `safe`, where brokers confirm on a fixed number of replicas: drawn as such, or asked for by its name.
    "fixed": _OF_BROKERS | _OF_CONTROLLERS | _OF_OPERATORS,
    "unclean": _OF_BROKERS | _OF_CONTROLLERS | _OF_OPERATORS,
    #: As `safe`, and disks lose what was written.
    "disks": _OF_BROKERS | _OF_CONTROLLERS | _OF_OPERATORS | _OF_DISKS,
    #: As `safe`, with role checks, switchovers and rolling restarts; hosts fail with a broker of each set.
    "planned": _OF_BROKERS | _OF_CONTROLLERS | _OF_OPERATORS | _PLANNED,
    "lost": _OF_BROKERS | _OF_CONTROLLERS | {"restore_backup": 9, "wipe_store": 4, "clean_all": 4},
    "late": _OF_BROKERS | _OF_CONTROLLERS | dict.fromkeys(_LATE, 0),
    "liar": _OF_BROKERS | _OF_CONTROLLERS | _LIES,
    "calm": _OF_CONTROLLERS
    | {
        "pause_broker": 8,
        "reset_connection": 5,
        "lose_answer": 3,
        "lose_notice": 2,
        "delay_notice": 2,
        "reset_and_query": 3,
        "cut_broker_from_broker": 2,
        "lag": 2,
        "lie": 6,
        "mute_broker": 2,
    },
}
_PROFILES: Final = ("safe",) * 7 + ("calm", "unclean", "lost", "late", "late", "liar", "liar")
_PROFILES_WITH_DISKS: Final = (*_PROFILES, *("disks",) * 6, *("planned",) * 5)
#: How many histories of `planned` have two sets, and controllers beside them.
TWO_SETS, BESIDE = 0.4, 0.3
#: How many histories end with a healthy core alone, and of which profiles.
CORE: Final = 0.4
_WITH_CORE: Final = frozenset({"safe", "unclean", "disks", "planned"})


def history_of(seed: int, profile: str = "") -> tuple[Settings, tuple[Fault, ...]]:
    """Return a world, of this profile if one is given, and what goes wrong in it."""
    draw = random.Random(seed)
    profile = profile or draw.choice(_PROFILES_WITH_DISKS)
    brokers = draw.choice((2, 3, 3))
    controllers = draw.choice((1, 2, 2, 3, 3, 3))
    pairs = [(controller, broker) for controller in range(controllers) for broker in range(brokers)]
    settings = Settings(
        profile=profile,
        brokers=brokers,
        heartbeat_timeout_ms=draw.choice((3_000, 10_000)),
        broker_phases_ms=tuple(draw.randrange(0, 1_000) for _ in range(brokers)),
        controllers=controllers,
        controller_phases_ms=tuple(draw.randrange(0, 50) for _ in range(controllers)),
        confirmed_on=2 if profile == "fixed" or (profile == "safe" and draw.random() < FIXED_CONFIRMATIONS) else 0,
        are_named=draw.random() < NAMED,
        blocked=tuple((pair, draw.choice(("silent", "refused"))) for pair in pairs if draw.random() < BLOCKED),
    )
    # Faults that come close to each other are those that nobody thought of together.
    begin_ms = 0 if profile in ("safe", "unclean") and draw.random() < 0.3 else 3_000
    end_ms = draw.choice(HORIZONS_MS)
    moments = [draw.randrange(begin_ms, end_ms - 3_000) for _ in range(draw.randint(1, 4))]
    kinds = KINDS[profile]
    chosen = draw.choices(list(kinds), list(kinds.values()), k=draw.randint(3, 12))
    faults = [_fault(draw, kind, moments) for kind in chosen]
    if profile == "late":
        faults = faults[: draw.randint(0, 4)] + _lost_store(draw)
    if profile == "planned":
        sets = 2 if draw.random() < TWO_SETS else 1
        # Who cannot ask a master whether it serves leads nobody to it.
        settings = settings._replace(is_planned=True, sets=sets, are_beside=draw.random() < BESIDE, blocked=())
        faults = [fault._replace(who=fault.who + brokers * draw.randrange(sets)) for fault in faults]
    if profile == "disks":
        # Where no broker can be queried, the beginning of an epoch is known by a heartbeat of a second before.
        settings = settings._replace(blocked=())
    if profile in _WITH_CORE and not settings.confirmed_on and draw.random() < CORE:
        settings = settings._replace(core_ms=draw.randrange(moments[0] + 1_000, moments[0] + 6_000))
    return settings, tuple(sorted(faults))


def _lost_store(draw: random.Random) -> list[Fault]:
    """Return what makes a broker know an epoch that no other has seen, and the loss of the store."""
    crashed_ms = draw.randrange(4_000, 8_000)
    first, second = _LATE
    return [Fault(crashed_ms, first, 0, 0, _LONGEST_MS), Fault(crashed_ms + draw.randrange(1_500, 6_000), second, 0)]


def _fault(draw: random.Random, kind: str, moments: list[int]) -> Fault:
    at_ms = draw.choice(moments) + draw.randrange(0, 3_000)
    for_ms = draw.choice((200, 700, 1_500, 1_500, 2_500, 2_500, 4_000, 6_500, _LONGEST_MS))
    return Fault(at_ms, kind, draw.randrange(3), draw.randrange(3), for_ms)
