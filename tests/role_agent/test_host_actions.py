"""What an agent does to its host again and again, and how often; test_agent_hosts.py does it to real kernels."""

from fakes.clock import FakeClock

from role_agent.agent import HostActions
from role_agent.log import AgentLog
from role_agent.rules.address_holder import EndSessions

TICK_MS = 50


class Kernel:
    """Stands in for HostNetwork: it has no connections, and keeps when those of slaves were to be closed."""

    def __init__(self, clock):
        self.clock, self.closed_ms = clock, []

    def close_ha_connections(self):
        self.closed_ms.append(self.clock.now_ms())
        return 0

    def close_sessions(self):
        return []

    def notify_clients(self, sessions):
        pass


def test_slaves_of_a_superseded_master_are_cut_off_four_times_a_second_for_six_seconds():
    clock = FakeClock()
    kernel = Kernel(clock)
    actions = HostActions(kernel, clock, AgentLog(clock, {}))
    began_ms = clock.now_ms()
    actions.end_sessions(EndSessions(7))
    for _ in range(10_000 // TICK_MS):
        clock.pass_ms(TICK_MS)
        actions.tick()
    assert [at_ms - began_ms for at_ms in kernel.closed_ms] == list(range(0, 6_000, 250))
