"""The masters of broker sets as a test sets them; changes are those that the real rules find."""

from controller.offsets.topology.values import FollowedSet, SetMaster, SetMember, change_of

CLUSTER = "DefaultCluster"


class FollowedMasters:
    """What follows masters, with listeners."""

    def __init__(self, clock):
        self._clock = clock
        self._last = {}
        self.sets = {}
        self.listeners = []
        self.fresh = True

    def masters(self):
        return (each.master for each in self.sets.values() if each.master is not None)

    def is_fresh(self):
        return self.fresh

    def is_master(self, master):
        known = self.sets.get(master.broker_name)
        return self.fresh and known is not None and known.master == master

    def elect(self, broker_name, address, *replicas, epoch=1, cluster=CLUSTER):
        """Let a broker be the master of a set; None: nobody is."""
        master = None if address is None else SetMaster(cluster, broker_name, epoch, address, epoch)
        members = tuple(
            SetMember(number, each, in_sync=True)
            for number, each in enumerate((*([address] if address else ()), *replicas), 1)
        )
        now = FollowedSet(cluster, broker_name, master, epoch, members=members)
        change = change_of(self.sets.get(broker_name), self._last.get(broker_name), now, self._clock.unix_ms())
        self.sets[broker_name] = now
        if master is not None:
            self._last[broker_name] = master
        for each in self.listeners:
            each.masters_changed([change] if change is not None else [])
