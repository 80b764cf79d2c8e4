"""What goes wrong around one failover of a set with a role address, alone or two at a time, drawn at random.

A fault is begun and ended once. One of the master's has an outcome to wait for in between. Each draws its own times.

Only `MasterThawsAtTheElection` thaws while its successor is elected, and it is drawn alone: an election waits for 0.4 s
at most, so an agent that hangs meanwhile leaves a broker of 5.5.0 that thaws the time to acknowledge alone
(docs/role-addresses-vip.md).
"""

import contextlib
import threading
import time
from dataclasses import dataclass

from peers.controllers import leader_of
from peers.waiting import wait_until
from replicated import UNIX, VERY_LONG_S
from switched import ENDED

#: The second fault begins so long after that of the master; before it, if negative.
DELAY_S = (-2.0, 4.0)
#: A failure is detected after 3 s.
PAUSE_S = (0.2, 2.0)
#: How long controllers are away.
AWAY_S = (1.0, 8.0)
#: How long a thaw or a start comes after it could.
LATER_S = (0.0, 2.0)


class Fault:
    """Something that goes wrong from `begin` to `end`; either may do nothing."""

    #: Whether no controller can act until it has ended.
    hinders = False

    def __init__(self, watched, chosen):
        self.watched, self.site = watched, watched.site
        self.chosen = chosen

    def begin(self):
        pass

    def end(self):
        pass


class NothingElse(Fault):
    """The fault of the master is alone."""


class MasterFault(Fault):
    """Something happens to the master; `wait_for_outcome` comes before `end`."""

    #: Whether its outcome is the work of a controller.
    needs_controllers = True

    def __init__(self, watched, chosen):
        super().__init__(watched, chosen)
        self.victim = watched.master()

    def begin(self):
        # Another fault may have begun: it is the master of before if no controller answers.
        self.victim = self.watched.master_now() or self.victim
        self.since_ms = UNIX.unix_ms()
        self.strike()

    def strike(self):
        raise NotImplementedError

    def wait_for_outcome(self):
        """Wait until its successor serves, if there can be one."""
        if self.watched.wait_for_another_master(self.victim):
            self.watched.wait_for_send_to_another(self.victim, self.since_ms)


class MasterKilled(MasterFault):
    def strike(self):
        self.victim.process.kill()

    def end(self):
        self.watched.brokers.restart(self.victim)


class MasterFrozen(MasterFault):
    """It thaws once its successor serves, or a while later."""

    def strike(self):
        self.victim.process.pause()

    def wait_for_outcome(self):
        super().wait_for_outcome()
        time.sleep(self.chosen.choice((0, self.chosen.uniform(*LATER_S))))

    def end(self):
        self.victim.process.resume()


class MasterThawsAtTheElection(MasterFault):
    """It thaws as soon as its successor is elected, or up to 0.2 s later: when it may still have its sessions."""

    def strike(self):
        logs = [each.process for each in self.site.controllers]
        positions = [each.position() for each in logs]
        self.victim.process.pause()
        self._thaw = threading.Thread(target=self._thaw_at_the_election, args=(logs, positions), daemon=True)
        self._thaw.start()

    def _thaw_at_the_election(self, logs, positions):
        deadline = time.perf_counter() + VERY_LONG_S
        try:
            while time.perf_counter() < deadline and not any(map(_has_elected, logs, positions)):
                time.sleep(0.005)
            time.sleep(self.chosen.choice((0, self.chosen.uniform(0, 0.2))))
        finally:
            self._thawed_ms = UNIX.unix_ms()
            self.victim.process.resume()

    def wait_for_outcome(self):
        self._thaw.join()
        super().wait_for_outcome()
        late = self.watched.acknowledged_by(self.victim, self._thawed_ms)
        assert not late, f"acknowledged by a broker that is no master any more: {late}"

    def end(self):
        """Do nothing: it has thawed."""


def _has_elected(process, position):
    return '"event":"master_elected"' in process.text(position)


class MasterPaused(MasterFault):
    """It thaws before its failure is detected, whatever else goes wrong meanwhile."""

    needs_controllers = False

    def strike(self):
        self.victim.process.pause()
        self._thaw = threading.Timer(self.chosen.uniform(*PAUSE_S), self.victim.process.resume)
        self._thaw.start()

    def wait_for_outcome(self):
        self._thaw.join()

    def end(self):
        """Do nothing: it has thawed."""


class Switchover(MasterFault):
    """An operator hands the role over; it may be refused, fail or be rolled back because of what else goes wrong."""

    def strike(self):
        if leader_of(self.site.controllers) is None:
            return
        # A controller that is killed before it answers may have begun.
        with contextlib.suppress(OSError):
            self.site.request("switchover", {"reason": "a test"})

    def wait_for_outcome(self):
        wait_until(self._is_over, seconds=VERY_LONG_S, what="the end of the switchover")

    def _is_over(self):
        if leader_of(self.site.controllers) is None:
            return False
        try:
            status, shown = self.site.request("switchover")
        except OSError:
            return False
        # The next leader knows nothing of it.
        return status == 404 or shown.get("phase") in ENDED


class SwitchoverMeanwhile(Fault):
    def begin(self):
        self._switchover = Switchover(self.watched, self.chosen)
        self._switchover.begin()

    def end(self):
        self._switchover.wait_for_outcome()


class LeaderKilled(Fault):
    def begin(self):
        self._leader = self.site.leader
        self._leader.process.kill()

    def end(self):
        self._leader.start()


class LeaderFrozen(Fault):
    def begin(self):
        self._leader = self.site.leader
        self._leader.process.pause()

    def end(self):
        self._leader.process.resume()


class ControllersAway(Fault):
    hinders = True

    def begin(self):
        for each in self.site.controllers:
            each.process.kill()

    def end(self):
        time.sleep(self.chosen.uniform(*AWAY_S))
        for each in self.site.controllers:
            each.launch()
        for each in self.site.controllers:
            each.ready()


class EtcdLeaderKilled(Fault):
    def begin(self):
        self._member = wait_until(self.site.etcd.leader, seconds=VERY_LONG_S, what="a leader of etcd")
        self._member.process.kill()

    def end(self):
        self.site.etcd.restart(self._member)


class ProxyRestarted(Fault):
    """HAProxy is killed and starts anew without its states; it serves nobody until a controller answers."""

    def begin(self):
        self.site.haproxy.drop_states()
        self.restart()

    def restart(self):
        self.site.haproxy.process.kill()
        time.sleep(self.chosen.choice((0, self.chosen.uniform(*LATER_S))))
        self.site.haproxy.start()


class ProxyRestartedWithItsStates(ProxyRestarted):
    """It goes on as before, also where that was before the failover."""

    def begin(self):
        self.site.haproxy.save_states()
        self.restart()


class ProxyRestartedWithOldStates(ProxyRestarted):
    """Its states are those of the last minute: they name the master that was replaced, which may thaw just then."""

    def begin(self):
        self.site.haproxy.save_states()

    def end(self):
        self.restart()


MASTER_FAULTS = (MasterKilled, MasterFrozen, MasterPaused, Switchover)
SITE_FAULTS = (
    NothingElse,
    SwitchoverMeanwhile,
    LeaderKilled,
    LeaderFrozen,
    ControllersAway,
    EtcdLeaderKilled,
    ProxyRestarted,
    ProxyRestartedWithItsStates,
    ProxyRestartedWithOldStates,
)


@dataclass(frozen=True)
class Drawn:
    """A fault of the master, another one around it, and when."""

    of_master: MasterFault
    other: Fault
    delay_s: float
    other_ends_first: bool

    @classmethod
    def draw(cls, watched, chosen, master_faults, others):
        of_master, other = chosen.choice(master_faults)(watched, chosen), chosen.choice(others)(watched, chosen)
        # The outcome would not come before the other fault has ended.
        must = other.hinders and of_master.needs_controllers
        return cls(of_master, other, chosen.uniform(*DELAY_S), must or chosen.random() < 0.5)

    def __str__(self):
        first = "ended first" if self.other_ends_first else "ended last"
        return f"{type(self.of_master).__name__}, {self.delay_s:+.2f} s {type(self.other).__name__}, {first}"

    def run(self):
        """Begin both, wait for the outcome, and end both."""
        begins = [(0.0, self.of_master), (self.delay_s, self.other)]
        (_, first), (_, second) = sorted(begins, key=lambda each: each[0])
        first.begin()
        time.sleep(abs(self.delay_s))
        second.begin()
        if self.other.hinders and self.other_ends_first:
            self.other.end()
        self.of_master.wait_for_outcome()
        if self.other_ends_first and not self.other.hinders:
            self.other.end()
        self.of_master.end()
        if not self.other_ends_first:
            self.other.end()
