"""Random histories: a seed makes servers, brokers and what happens to them, as the generator of the tests plays it."""

from random import Random

from synthetic.generator import History, generate
from synthetic.plan import (
    DAY,
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
)
from synthetic.plants import Failover, failover, offset_samples, refused_election, role_address_moved, slow_spell, storm

LENGTH_US = 4 * HOUR


def history_of(seed: int) -> tuple[Plan, History]:
    """Return a plan made from a seed, and what its servers record."""
    plan = plan_of(seed)
    history = generate(plan)
    return plan, history


def plan_of(seed: int) -> Plan:
    """Return a plan of four hours of some sets, with trouble of every kind."""
    random = Random(f"plain {seed}")
    brokers = _brokers(random)
    keys = [broker.key for broker in brokers]
    names = sorted({key.broker_name for key in keys})
    topics = tuple(
        Topic(f"topic-{number}", tuple(random.sample(names, random.randint(1, len(names)))), *_queues(random))
        for number in range(4)
    )
    servers = _servers(random)
    plan = Plan(
        start_us=MONDAY + 6 * HOUR,
        end_us=MONDAY + 6 * HOUR + LENGTH_US,
        seed=seed,
        servers=servers,
        brokers=brokers,
        heartbeats_to_controllers=random.random() < 0.5,
        plant=Plant(topics=topics, topic_changes=_topic_changes(random, topics) + _on_slow_ones(seed, brokers, topics)),
    )
    pairs = [key.broker_name for key in keys if key.broker_id == 1]
    failing = [name for name in pairs if random.random() < 0.5] if servers[-1].source == "controller" else []
    calm = [key for key in keys if key.broker_name not in failing]
    plan = plan.with_plants(*(_trouble(random, key, servers) for key in calm), *_failovers(random, plan, failing))
    if servers[-1].source == "controller":
        plan = plan.with_plants(*_refused_elections(plan))
    if random.random() < 0.3:
        at_us = MONDAY + 8 * HOUR
        busy = {each.broker for each in plan.plant.outages if _is_near(each, at_us)}
        plan = plan.with_plants(storm([key for key in calm if key not in busy], at_us, seed=seed))
    return plan


def _is_near(outage: Outage, at_us: int) -> bool:
    """Tell whether an outage is in the way of another one of some minutes."""
    return outage.from_us < at_us + 5 * MINUTE and (outage.to_us is None or at_us < outage.to_us + MINUTE)


def _brokers(random: Random) -> tuple[Broker, ...]:
    return tuple(
        broker for number in range(random.randint(3, 6)) for broker in _set(random, f"broker-{number}", number)
    )


def _set(random: Random, name: str, number: int) -> list[Broker]:
    period_ms = random.choice((30_000, 30_000, 30_000, 20_000, 60_000))
    return [
        Broker(
            key=BrokerKey(name, broker_id),
            cluster="A" if number < 4 else "B",
            period_ms=period_ms,
            drop=random.choice((0, 0, 0.02, 0.1)),
        )
        for broker_id in range(random.choice((1, 2)))
    ]


def _servers(random: Random) -> tuple[Server, ...]:
    found = []
    for number in range(random.choice((1, 2, 3, 3, 3))):
        downtimes, pauses = (), ()
        at_us = MONDAY + 6 * HOUR + random.randrange(10 * MINUTE, LENGTH_US - 40 * MINUTE)
        length_us = random.randrange(20 * SECOND, 20 * MINUTE)
        match random.randrange(4):
            case 0:
                downtimes = (Downtime(at_us, at_us + length_us, random.random() < 0.5),)
            case 1:
                pauses = (Pause(at_us, at_us + length_us),)
        found.append(Server(name=f"ns-{number}", downtimes=downtimes, pauses=pauses))
    if random.random() < 0.6:
        found.append(Server(name="ctl-0", source="controller"))
    return tuple(found)


def _queues(random: Random) -> tuple[int, int, int]:
    count = random.choice((4, 8, 16))
    return count, count, random.choice((6, 6, 4))


def _topic_changes(random: Random, topics: tuple[Topic, ...]) -> tuple[TopicChange, ...]:
    found = []
    for _ in range(random.randrange(12)):
        topic = random.choice(topics)
        at_us = MONDAY + 6 * HOUR + random.randrange(5 * MINUTE, LENGTH_US)
        count = random.choice((4, 8, 16, None))
        found.append(TopicChange(at_us, topic.name, random.choice(topic.brokers), count, count, count and 6))
    if random.random() < 0.3:
        # Each change is a registration more.
        topic, every_us = random.choice(topics), random.choice((9, 14, 40)) * SECOND
        times = range(MONDAY + 7 * HOUR, MONDAY + 9 * HOUR, every_us)
        found += [TopicChange(at_us, topic.name, topic.brokers[0], 4 + n % 3, 4) for n, at_us in enumerate(times)]
    return tuple(found)


def _on_slow_ones(seed: int, brokers: tuple[Broker, ...], topics: tuple[Topic, ...]) -> tuple[TopicChange, ...]:
    """Change topics of brokers that beat each 60 s every some minutes: each makes one interval two."""
    random = Random(f"slow {seed}")
    slow = {broker.key.broker_name for broker in brokers if broker.period_ms == 60_000}
    found = []
    for name in sorted(slow):
        topic = next((each for each in topics if name in each.brokers), None)
        if topic is None or random.random() < 0.3:
            continue
        from_us, every_us = MONDAY + 6 * HOUR + random.randrange(HOUR), random.choice((2, 10, 15)) * MINUTE
        times = range(from_us, MONDAY + 6 * HOUR + LENGTH_US, every_us)
        found += [TopicChange(at_us, topic.name, name, 4 + n % 3, 4) for n, at_us in enumerate(times)]
    return tuple(found)


def _trouble(random: Random, key: BrokerKey, servers: tuple[Server, ...]) -> Plant:
    """Return what happens to one broker, one thing after another."""
    outages, freezes, cuts = [], [], []
    at_us = MONDAY + 6 * HOUR
    while True:
        at_us += random.randrange(5 * MINUTE, 90 * MINUTE)
        to_us = at_us + random.randrange(10 * SECOND, 25 * MINUTE)
        if to_us >= MONDAY + 6 * HOUR + LENGTH_US - 5 * MINUTE:
            break
        match random.randrange(6):
            case 0 | 1 | 2:
                end = random.choice((End.PLANNED, End.CRASH, End.SILENT))
                moved_to = f"{key.broker_name}-{key.broker_id}b:10911" if random.random() < 0.2 else None
                outages.append(Outage(key, at_us, to_us, end, moved_to))
            case 3:
                freezes.append(Freeze(key, at_us, to_us))
            case 4:
                cuts.append(Cut(key, random.choice(servers).name, at_us, to_us))
        at_us = to_us
    return Plant(outages=tuple(outages), freezes=tuple(freezes), cuts=tuple(cuts))


def _failovers(random: Random, plan: Plan, pairs: list[str]) -> list[Plant]:
    """Let masters die for good; their slaves are elected, and register as masters."""
    found = []
    for epoch, name in enumerate(pairs, start=1):
        died_us = plan.start_us + random.randrange(30 * MINUTE, LENGTH_US - 30 * MINUTE)
        cluster = next(broker.cluster for broker in plan.brokers if broker.key.broker_name == name)
        one = failover(name, died_us, controller="ctl-0", epoch=epoch, cluster=cluster)
        (true_failover,) = one.truth["failovers"]
        master, slave = BrokerKey(name, 0), BrokerKey(name, 1)
        seen_us = true_failover.elected_us + random.randrange(20, 9_000) * 1000
        found += [
            one,
            Plant(outages=(Outage(master, died_us, None, End.SILENT),), moves=(Move(slave, master, seen_us),)),
            _role_address(true_failover, plan),
        ]
    return found


def _refused_elections(plan: Plan) -> list[Plant]:
    """Let operators, brokers and switchovers request what changes nothing: while a master leads, at any other time."""
    # Of its own, so that other plants stay as they are.
    random = Random(f"refused {plan.seed}")
    elected_us = {each.broker_name: each.elected_us for each in plan.plant.truth.get("failovers", ())}
    found = []
    for broker in plan.brokers:
        name, away_us = broker.key.broker_name, 10 * SECOND
        for _ in range(random.randrange(4) if broker.key.broker_id == 0 else 0):
            at_us = plan.start_us + random.randrange(MINUTE, LENGTH_US)
            changed_us = elected_us.get(name, plan.end_us + away_us)
            if changed_us - away_us <= at_us <= changed_us:
                continue
            cause = random.choice(("operator", "switchover", "broker"))
            found.append(
                refused_election(
                    name, at_us, int(at_us > changed_us), controller="ctl-0", cause=cause, cluster=broker.cluster
                )
            )
    return found


def _role_address(failed_over: Failover, plan: Plan) -> Plant:
    """Let some NameServers give clients an address of a set, and some of these see that it moves."""
    # Of its own, so that other plants stay as they are.
    random = Random(f"role address {failed_over}")
    servers = [server.name for server in plan.servers if server.source == "namesrv" and random.random() < 0.7]
    seen = {name: random.choice((None, random.randrange(20, 5_000) * 1000)) for name in servers}
    given_us = failed_over.died_us - random.randrange(1, 20) * MINUTE
    return role_address_moved(failed_over, "10.9.0.5:10911", given_us, seen)


def long_history_of(seed: int) -> tuple[Plan, History]:
    """Return some days of one NameServer: gauges that grow, sampled topics, and a broker that has a bad hour or two."""
    random = Random(f"plain long {seed}")
    count = random.randint(4, 6)
    start_us = MONDAY
    names = ("broker-0", "broker-1")
    topics = tuple(Topic(f"topic-{number}", names, *_queues(random)) for number in range(2))
    growth = {name: random.randrange(0, 200) for name in ("connections", "topics")}
    noise = [random.randrange(0, 60) for _ in range(count)]

    def gauges(server: Server, at_us: int) -> dict[str, int]:
        day = (at_us - start_us) // DAY
        return {name: 1000 + by * day + noise[day] for name, by in growth.items()}

    samples = [
        offset_samples("ns-0", topic.name, start_us + day * DAY, _rates(random), every_us=MINUTE)
        for topic in topics
        for day in range(count)
        if random.random() < 0.9
    ]
    plan = Plan(
        start_us=start_us,
        end_us=start_us + count * DAY,
        seed=seed,
        servers=(Server(name="ns-0"),),
        brokers=tuple(Broker(key=BrokerKey(name), period_ms=60_000) for name in names),
        gauges=gauges,
        snapshot_us=12 * HOUR,
        plant=Plant(topics=topics),
    )
    return (whole := plan.with_plants(*samples)), generate(whole)


def _rates(random: Random) -> list[float]:
    """Return how many messages come in a second, for each minute of a day or of its first ten hours."""
    usual = random.choice((0.0, 10.0, 800.0))
    return [usual * random.uniform(0.5, 1.5) for _ in range(random.choice((1440, 1440, 600)))]


def weeks_of(seed: int) -> tuple[Plan, History]:
    """Return four weeks of a broker that beats each two minutes, and of an hour without half of its beats."""
    random = Random(f"plain weeks {seed}")
    key = BrokerKey("broker-0")
    from_us = MONDAY + 27 * DAY + random.randrange(20) * HOUR
    plan = Plan(
        start_us=MONDAY,
        end_us=MONDAY + 28 * DAY,
        seed=seed,
        servers=(Server(name="ns-0"),),
        brokers=(Broker(key=key, period_ms=120_000, timeout_ms=600_000, jitter_ms=9_000),),
        snapshot_us=7 * DAY,
    )
    spell = slow_spell(key, from_us, from_us + 80 * MINUTE, every_us=4 * MINUTE, still_us=2 * MINUTE)
    return plan, generate(plan.with_plants(spell))
