"""What goes wrong on the hosts of a set whose role address is on the host of its master."""

import time

from role_faults import (
    LATER_S,
    ControllersAway,
    Fault,
    MasterFault,
    MasterFrozen,
    MasterKilled,
    MasterPaused,
    NothingElse,
)

#: An agent hangs for so long: its address has a lease of 3 s, and its watchdog ends it after 2 s.
HANGS_S = (0.5, 8.0)


class MasterHostCut(MasterFault):
    """Its host and all others no longer reach each other; its own kernel may see that, or not."""

    def strike(self):
        host = self.victim.host
        cut, self._mend = self.chosen.choice(((host.leave, host.join), (host.cut, host.mend)))
        cut()

    def end(self):
        time.sleep(self.chosen.choice((0, self.chosen.uniform(*LATER_S))))
        self._mend()


class AgentHangs(Fault):
    """The agent of one host hangs, and goes on or is ended by its watchdog; the address may be due there meanwhile."""

    hinders = True

    def begin(self):
        self._agent = self.chosen.choice(self.site.agents)
        self._agent.process.pause()

    def end(self):
        time.sleep(self.chosen.uniform(*HANGS_S))
        self.chosen.choice((self._agent.process.resume, self._agent.restart))()


class AgentKilled(Fault):
    """Its unit starts it again, at once or later."""

    def begin(self):
        agent = self.chosen.choice(self.site.agents)
        agent.process.kill()
        time.sleep(self.chosen.choice((0.1, self.chosen.uniform(*LATER_S))))
        agent.start()


HOST_MASTER_FAULTS = (MasterKilled, MasterFrozen, MasterPaused, MasterHostCut)
HOST_FAULTS = (NothingElse, AgentHangs, AgentKilled, ControllersAway)
