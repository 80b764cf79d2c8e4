"""What NameServers show of a failover: the new master registers with each of them, sooner or later."""

from collections.abc import Mapping

from synthetic.plan import Happening, Plant
from synthetic.plants import Failover


def new_master_seen(failover: Failover, after_us: Mapping[str, int]) -> Plant:
    """Plant the registration of the new master, broker id 1 before, on NameServers, so many us after its election."""
    cluster = failover.failover_id.split("/")[0]
    who = {"cluster": cluster, "broker_name": failover.broker_name, "broker_id": 0}
    values = {**who, "broker_addr": f"{failover.broker_name}-1:10911", "role": "master"}
    return Plant(
        happenings=tuple(
            Happening(failover.elected_us + delay_us, server, "broker_state", "role_changed", values)
            for server, delay_us in after_us.items()
        ),
        truth={"shown": tuple((failover.failover_id, server, delay) for server, delay in after_us.items())},
    )
