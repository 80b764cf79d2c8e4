"""Small histories in each of which one thing happens that is easily told wrong, and the questions it concerns."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from synthetic.generator import History, generate
from synthetic.plan import (
    HOUR,
    MINUTE,
    MONDAY,
    SECOND,
    Broker,
    BrokerKey,
    Cut,
    Downtime,
    End,
    Freeze,
    Move,
    Outage,
    Pause,
    Plan,
    Plant,
    Server,
    Topic,
    TopicChange,
    brokers,
    three_servers,
)
from synthetic.plants import failover, flaps, refused_election, role_address_moved, storm

from history.heartbeats import Heartbeat, HeartbeatAggregator
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker

NOON = MONDAY + 12 * HOUR
END = NOON + 2 * HOUR
ONE, TWO = BrokerKey("broker-000"), BrokerKey("broker-001")
SLAVE = BrokerKey("broker-000", 1)
CONTROLLER = Server(name="ctl-0", source="controller")


def _plan(plant: Plant, **values: object) -> Plan:
    usual: dict[str, object] = {"start_us": NOON, "end_us": END, "brokers": brokers(2)}
    return Plan(**(usual | values), plant=plant)  # type: ignore[arg-type]


def _altered(every_us: int, drop: float, **values: int) -> Plan:
    """A broker registers once more with each change of its topics."""
    times = range(NOON + 5 * MINUTE, END - 5 * MINUTE, every_us)
    changes = tuple(TopicChange(at_us, "t", "broker-000", 4 + n % 3, 4) for n, at_us in enumerate(times))
    plant = Plant(topics=(Topic("t", ("broker-000",)),), topic_changes=changes)
    return _plan(plant, brokers=brokers(2, drop=drop, **values))


def _everywhere(broker: BrokerKey, from_us: int, to_us: int) -> tuple[Cut, ...]:
    return tuple(Cut(broker, f"ns-{number}", from_us, to_us) for number in range(3))


def _restarted(*, clean: bool, length_us: int) -> Plan:
    """A NameServer is restarted, and knows nobody until brokers register again."""
    down = Downtime(NOON + HOUR, NOON + HOUR + length_us, clean)
    return _plan(Plant(), servers=(Server(name="ns-0", downtimes=(down,)), *three_servers()[1:]))


def _storm(count: int) -> Plan:
    everybody = brokers(8)
    return _plan(storm([broker.key for broker in everybody[:count]], NOON + HOUR), brokers=everybody)


def _storm_without_heartbeats() -> Plan:
    """Five brokers are restarted; a NameServer hears two of them late: it had given one up, and still has the other."""
    cuts = (
        Cut(ONE, "ns-0", NOON + 58 * MINUTE, NOON + 65 * MINUTE),
        Cut(TWO, "ns-0", NOON + HOUR - 30 * SECOND, NOON + 65 * MINUTE),
    )
    return replace(_storm(5), servers=three_servers()[:2]).with_plants(Plant(cuts=cuts))


def _silent_to(names: tuple[str, ...], count: int, to_us: int) -> Plant:
    """Some NameServers hear nothing of so many brokers, for longer than their timeout."""
    cuts = (Cut(broker.key, name, NOON + 57 * MINUTE, to_us) for broker in brokers(count) for name in names)
    return Plant(cuts=tuple(cuts))


def _moved_hosts() -> Plan:
    """Brokers that one NameServer has given up, and the other one has, are started anew elsewhere."""
    restarts = tuple(
        Outage(broker.key, NOON + HOUR, NOON + HOUR + MINUTE, End.SILENT, f"new-{number}:10911")
        for number, broker in enumerate(brokers(6))
    )
    plan = _plan(Plant(outages=restarts), brokers=brokers(6), servers=three_servers()[:2])
    return plan.with_plants(_silent_to(("ns-0",), 6, NOON + HOUR))


def _failed_over() -> Plan:
    one = failover("broker-000", NOON + HOUR, controller="ctl-0", epoch=2)
    (true_failover,) = one.truth["failovers"]
    registered_us = true_failover.elected_us + SECOND
    late = Cut(ONE, "ns-2", registered_us - SECOND, registered_us + 20 * SECOND)
    moved = Plant(
        outages=(Outage(ONE, true_failover.died_us, None, End.SILENT),),
        moves=(Move(SLAVE, ONE, registered_us),),
        cuts=(late,),
    )
    plan = _plan(one, brokers=(*brokers(2), Broker(key=SLAVE)), servers=(*three_servers(), CONTROLLER))
    return plan.with_plants(moved)


def _refused() -> Plan:
    """Operators request masters in vain: of a set before and after its failover, and of one that never fails."""
    plan = _failed_over()
    requests = (
        ("broker-000", NOON + 30 * MINUTE, 0),
        ("broker-000", NOON + 90 * MINUTE, 1),
        ("broker-001", NOON + 40 * MINUTE, 0),
    )
    return plan.with_plants(
        *(
            refused_election(name, at_us, master, controller="ctl-0", cluster="DefaultCluster")
            for name, at_us, master in requests
        )
    )


def _failed_over_with(**seen_us: dict[str, int | None]) -> Plan:
    """A master dies whose set has role addresses: when which NameServer saw each of them lead to the next one."""
    plan = _failed_over()
    (true_failover,) = plan.plant.truth["failovers"]
    ports = {"first": 10_911, "second": 10_921, "unchecked": 10_931}
    return plan.with_plants(
        *(
            role_address_moved(
                true_failover, f"10.9.0.5:{ports[name]}", NOON + MINUTE, each, is_checked=name != "unchecked"
            )
            for name, each in seen_us.items()
        )
    )


def _failed_over_before(*servers: Server) -> Plan:
    """A master dies while some of the NameServers are away, and a topic is altered when they are back."""
    one = failover("broker-000", NOON + HOUR, controller="ctl-0", epoch=2)
    (true_failover,) = one.truth["failovers"]
    moved = Plant(
        outages=(Outage(ONE, true_failover.died_us, None, End.SILENT),),
        moves=(Move(SLAVE, ONE, true_failover.elected_us + SECOND),),
        topics=(Topic("t", ("broker-000",)),),
        topic_changes=(TopicChange(NOON + HOUR + 6 * MINUTE, "t", "broker-000", 4, 4),),
    )
    plan = _plan(one, brokers=(*brokers(2), Broker(key=SLAVE)), servers=(*servers, CONTROLLER))
    return plan.with_plants(moved)


_AWAY = NOON + HOUR - 3 * MINUTE, NOON + HOUR + 4 * MINUTE
_DOWN = Server(name="ns-1", downtimes=(Downtime(*_AWAY),))
_DOWN_FOR_LONGER = Server(name="ns-0", downtimes=(Downtime(_AWAY[0], _AWAY[1] + 3 * MINUTE),))
_MUTE = Server(name="ns-2", pauses=(Pause(*_AWAY),))
#: It is there when the master is elected, and can record nothing from before its next tick on.
_MUTE_AFTERWARDS = Server(name="ns-2", pauses=(Pause(NOON + HOUR + 4 * SECOND, _AWAY[1]),))

_CRASH = Outage(ONE, NOON + 40 * MINUTE + 17 * SECOND, NOON + 60 * MINUTE, End.CRASH)
_SILENCE = _CRASH._replace(end=End.SILENT)
_GOODBYE = _CRASH._replace(end=End.PLANNED)

STORIES: dict[str, tuple[Plan, tuple[str, ...]]] = {
    "a broker registers at each of many changes": (_altered(9 * SECOND, 0), ("A2", "A7")),
    "a broker registers at some changes, and beats are lost": (_altered(70 * SECOND, 0.1), ("A2", "A7")),
    "a broker is configured to beat each 60 s": (_plan(Plant(), brokers=brokers(2, period_ms=60_000)), ("A2",)),
    "a broker that beats each 60 s registers at some changes": (
        _altered(10 * MINUTE, 0.02, period_ms=60_000),
        ("A2", "A5"),
    ),
    "a broker that beats each 60 s has just come": (
        _plan(Plant(), brokers=brokers(1, period_ms=60_000, since_us=END - 6 * MINUTE)),
        ("A2", "A5"),
    ),
    "a broker that beats each 20 s loses beats": (
        _plan(Plant(), brokers=brokers(2, period_ms=20_000, drop=0.1)),
        ("A2",),
    ),
    "a broker stands still for two minutes": (
        _plan(Plant(freezes=(Freeze(ONE, NOON + HOUR, NOON + HOUR + 115 * SECOND),))),
        ("A1", "A2", "A4"),
    ),
    "a connection ends with its process": (_plan(Plant(outages=(_CRASH,))), ("A1", "A3", "A4", "A14")),
    "a host dies silently": (_plan(Plant(outages=(_SILENCE,))), ("A1", "A3", "A4", "A6")),
    "a broker says good-bye": (_plan(Plant(outages=(_GOODBYE,))), ("A1", "A3", "A4", "A14")),
    "one NameServer does not hear a broker": (
        _plan(Plant(cuts=(Cut(ONE, "ns-1", NOON + 30 * MINUTE, NOON + 50 * MINUTE),))),
        ("A1", "A2", "A4", "A6"),
    ),
    "NameServers do not hear a broker, a controller does": (
        _plan(
            Plant(cuts=_everywhere(ONE, NOON + 30 * MINUTE, NOON + 50 * MINUTE)),
            servers=(*three_servers(), CONTROLLER),
            heartbeats_to_controllers=True,
        ),
        ("A1", "A2", "A4", "A5"),
    ),
    "a slave becomes master": (
        _plan(
            Plant(
                outages=(Outage(ONE, NOON + HOUR, None, End.SILENT),),
                moves=(Move(SLAVE, ONE, NOON + HOUR + 5 * SECOND),),
            ),
            brokers=(*brokers(2), Broker(key=SLAVE)),
        ),
        ("A1", "A3", "A6", "A14"),
    ),
    "a NameServer is restarted in order": (_restarted(clean=True, length_us=20 * SECOND), ("A1", "A6", "A7", "A11")),
    "a NameServer is killed, and is back after ten minutes": (
        _restarted(clean=False, length_us=10 * MINUTE),
        ("A1", "A2", "A6", "A7", "A11"),
    ),
    "a NameServer cannot record": (
        _plan(
            Plant(outages=(_SILENCE,)),
            servers=(
                Server(name="ns-0", pauses=(Pause(NOON + 35 * MINUTE, NOON + 65 * MINUTE),)),
                *three_servers()[1:],
            ),
        ),
        ("A1", "A2", "A6"),
    ),
    "a set is empty when a NameServer can record again, and one of it comes back": (
        _plan(
            Plant(
                cuts=(Cut(ONE, "ns-0", NOON + 41 * MINUTE, NOON + 60 * MINUTE),),
                outages=(Outage(SLAVE, NOON + 42 * MINUTE, NOON + 70 * MINUTE, End.CRASH),),
            ),
            brokers=(*brokers(2), Broker(key=SLAVE)),
            servers=(Server(name="ns-0", pauses=(Pause(NOON + 40 * MINUTE, NOON + 50 * MINUTE),)), Server(name="ns-1")),
        ),
        ("A1", "A3", "A14"),
    ),
    "a topic is created soon after everybody has started": (
        _plan(
            Plant(
                topics=(Topic("t", ("broker-000",)),),
                topic_changes=(TopicChange(NOON + 65 * SECOND, "new", "broker-000", 4, 4),),
            )
        ),
        ("A7",),
    ),
    "a set comes later": (
        _plan(
            Plant(topics=(Topic("t", ("broker-000", "broker-001")),)),
            brokers=(*brokers(1), Broker(key=TWO, since_us=NOON + 10 * MINUTE)),
        ),
        ("A1", "A2", "A7"),
    ),
    "a NameServer gives a broker up while it cannot record, and a snapshot tells": (
        _plan(
            Plant(cuts=(Cut(ONE, "ns-0", NOON + 40 * MINUTE, NOON + 62 * MINUTE),)),
            servers=(
                Server(name="ns-0", pauses=(Pause(NOON + 35 * MINUTE, NOON + 55 * MINUTE),)),
                *three_servers()[1:],
            ),
        ),
        ("A6",),
    ),
    "a broker comes back at another address": (
        _plan(Plant(outages=(_CRASH._replace(to_us=NOON + 41 * MINUTE, address="other:10911"),))),
        ("A1", "A3", "A6"),
    ),
    "a broker that lets a slave act beats each second beside its registrations": (_plan(Plant()), ("A2",)),
    "a broker crashes each five minutes": (
        _plan(flaps(ONE, NOON + 10 * MINUTE, every_us=5 * MINUTE, count=12)),
        ("A1", "A3", "A14"),
    ),
    "six brokers are restarted at once": (_storm(6), ("A1", "A11")),
    "four brokers are restarted at once": (_storm(4), ("A11",)),
    "five brokers are restarted at once, and one NameServer hears two of them late": (
        _storm_without_heartbeats(),
        ("A11",),
    ),
    "one NameServer does not hear a broker while the other one is restarted": (
        replace(_restarted(clean=True, length_us=5 * MINUTE), brokers=brokers(5)).with_plants(
            _silent_to(("ns-1",), 1, NOON + 65 * MINUTE + SECOND)
        ),
        ("A11",),
    ),
    "two NameServers of three do not hear six brokers": (
        _plan(_silent_to(("ns-1", "ns-2"), 6, NOON + 65 * MINUTE), brokers=brokers(6)),
        ("A1", "A11"),
    ),
    "six brokers come back at other addresses, which one NameServer of two had given up": (
        _moved_hosts(),
        ("A1", "A11"),
    ),
    "a topic is altered while one NameServer hears nothing for a minute": (
        _plan(
            Plant(
                topics=(Topic("t", ("broker-000",)),),
                topic_changes=(TopicChange(NOON + HOUR + 5 * SECOND, "t", "broker-000", 4, 4),),
                cuts=(Cut(ONE, "ns-2", NOON + HOUR, NOON + HOUR + 80 * SECOND),),
            )
        ),
        ("A6", "A7", "A8"),
    ),
    "a NameServer that takes a broker for half as quick as it is does not hear of altered topics": (
        _plan(
            Plant(
                topics=(Topic("t", ("broker-000",)),),
                topic_changes=(TopicChange(NOON + 75 * MINUTE + 5 * SECOND, "t", "broker-000", 4, 4),),
                cuts=tuple(
                    Cut(ONE, "ns-1", from_us, from_us + length * SECOND)
                    for from_us, length in (
                        (NOON + 30 * MINUTE + 20 * SECOND, 20),
                        (NOON + 31 * MINUTE + 20 * SECOND, 20),
                        (NOON + 75 * MINUTE, 50),
                    )
                ),
            ),
            brokers=(Broker(key=ONE, since_us=NOON + 30 * MINUTE),),
        ),
        ("A6",),
    ),
    "a master dies, and one NameServer shows the new one late": (_failed_over(), ("A1", "A6", "A10")),
    "operators request masters, and nothing changes": (_refused(), ("A1", "A4", "A10")),
    "a master dies, and its role address leads to the next one": (
        _failed_over_with(first={"ns-0": SECOND + 300_000, "ns-1": 900_000}),
        ("A10",),
    ),
    "a master dies, and one of its role addresses leads to nobody": (
        _failed_over_with(first={"ns-0": SECOND}, second={"ns-0": None, "ns-2": None}),
        ("A10",),
    ),
    "a master dies, and to one of its role addresses no NameServer connects": (
        _failed_over_with(first={"ns-0": SECOND}, unchecked={"ns-0": None, "ns-1": None}),
        ("A10",),
    ),
    "a master dies, and its role address leads to the next one after half an hour": (
        _failed_over_with(first={"ns-0": 30 * MINUTE}),
        ("A10",),
    ),
    "a master dies while one NameServer is down and one cannot record": (
        _failed_over_before(Server(name="ns-0"), _DOWN, _MUTE),
        ("A10",),
    ),
    "a master dies, and one NameServer cannot record from then on": (
        _failed_over_before(Server(name="ns-0"), _MUTE_AFTERWARDS),
        ("A10",),
    ),
    "a master dies while one NameServer is down and no other one can record": (
        _failed_over_before(_DOWN, _MUTE),
        ("A10",),
    ),
    "a master dies while all NameServers are down": (_failed_over_before(_DOWN, _DOWN_FOR_LONGER), ("A10",)),
    "two brokers lose their rack": (_plan(Plant(outages=(_SILENCE, _SILENCE._replace(broker=TWO)))), ("A14", "A1")),
}

#: A story that the plan cannot tell: a NameServer hears both kinds of beats, and decides itself what it writes of them.
QUICK = "a broker that lets a slave act beats each second beside its registrations"


def story_of(name: str) -> tuple[Plan, History]:
    """Return a story's plan and what its servers record."""
    plan = STORIES[name][0]
    history = generate(plan)
    if name == QUICK:
        history.rows["heartbeat"].clear()
        for row in _quick_heartbeats():
            history.rows[row.family.name].append(dict(row.columns))
    return plan, history


def _quick_heartbeats() -> Iterator[HistoryRow]:
    """Yield what is recorded of an hour of registrations each 30 s and questions for the data version each second."""
    random = Random("quick")
    heartbeats, maker = HeartbeatAggregator(), RowMaker("ns-0", NOON // 1000, "namesrv")
    due = [(NOON + 2 * SECOND + n * SECOND, "data_version") for n in range(3600)]
    due += [(NOON + 2 * SECOND + 300_000 + n * 30 * SECOND, "register") for n in range(120)]
    last_heartbeat_us = None
    for at_us, kind in sorted(due):
        if last_heartbeat_us is None or random.random() > 0.05:
            interval_ms = None if last_heartbeat_us is None else (at_us - last_heartbeat_us) // 1000
            who = BrokerRef("DefaultCluster", "broker-000", 0, "broker-000-0:10911")
            heartbeat = Heartbeat(Moment(at_us, at_us - NOON), who, kind, interval_ms, 10_000, (1, 2, 0))
            for noted in heartbeats.add(heartbeat):
                yield from noted.rows(maker, noted.moment)
            last_heartbeat_us = at_us
