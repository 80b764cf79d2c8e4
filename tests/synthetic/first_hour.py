"""A small history: what one NameServer and one controller record of three brokers in an hour, rows of ten families."""

from synthetic.plan import (
    HOUR,
    MINUTE,
    MONDAY,
    SECOND,
    Broker,
    BrokerKey,
    Downtime,
    End,
    Outage,
    Plan,
    Plant,
    Server,
    Topic,
    brokers,
)
from synthetic.plants import churner, failover, offset_samples, resize, scaling_decisions

SET, OTHER, TOPIC, CONTROLLER = "broker-000", "broker-001", "orders", "controller-1"


def first_hour() -> Plan:
    """Return an hour in which the servers start late, a master dies, and a topic changes and is resized."""
    late = Downtime(MONDAY, MONDAY + 42 * MINUTE)
    names = (("ns-0", "namesrv"), (CONTROLLER, "controller"))
    died_us = MONDAY + 50 * MINUTE
    plan = Plan(
        end_us=MONDAY + HOUR,
        servers=tuple(Server(name=name, source=source, downtimes=(late,)) for name, source in names),
        brokers=(*brokers(2), Broker(key=BrokerKey(SET, 1))),
        heartbeats_to_controllers=True,
    )
    phases = (("PLANNED", SECOND), ("RAISE", SECOND), ("DONE", SECOND))
    return plan.with_plants(
        Plant(
            outages=(Outage(BrokerKey(SET), died_us, None, End.CRASH),),
            topics=(Topic(TOPIC, (SET, OTHER)),),
        ),
        failover(SET, died_us, controller=CONTROLLER, epoch=2),
        churner(TOPIC, OTHER, MONDAY + 45 * MINUTE, every_us=MINUTE, changes=4),
        offset_samples(CONTROLLER, TOPIC, MONDAY + 43 * MINUTE, [5.0] * 9),
        resize(CONTROLLER, TOPIC, MONDAY + 52 * MINUTE, phases, sets={OTHER: ("DefaultCluster", 8, 16)}),
        scaling_decisions(CONTROLLER, TOPIC, ((MONDAY + 51 * MINUTE, "grow", "busy"),)),
    )
