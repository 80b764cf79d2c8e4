"""A store like etcd with one entry: revisions, leases, a leader key; it fails, delays, and forgets."""

from controller.leadership import LEASE_TTL_S, Holder
from controller.store import Deposed, EntryMoved, Kept, Member, OutcomeUnknown


class Store:
    """What all controllers share; `world` checks whatever is written."""

    def __init__(self, world, core):
        self.world = world
        self.core = core
        self.is_down = False
        #: Which run of it this is: nothing that was under way to an earlier one arrives.
        self.run = 0
        self.revision = 1
        self.kept = Kept()
        self.past = [(self.kept, 1)]
        self.holder = None
        self.leases = {}
        self.lease_ids = 0

    # Leases and the leader key

    def leader(self):
        """Return who holds the key now."""
        holder = self.holder
        if holder is not None and self.leases.get(holder.lease_id, -1) < self.world.now_ms:
            self.holder = holder = None
            self.revision += 1
        return holder

    def grant(self):
        self.lease_ids += 1
        self.leases[self.lease_ids] = self.world.now_ms + LEASE_TTL_S * 1000
        return self.lease_ids

    def renew(self, lease_id):
        if self.leases.get(lease_id, -1) < self.world.now_ms:
            return 0
        self.leases[lease_id] = self.world.now_ms + LEASE_TTL_S * 1000
        return LEASE_TTL_S

    def campaign(self, member: Member, run, lease_id):
        if self.leader() is None and self.leases.get(lease_id, -1) >= self.world.now_ms:
            self.revision += 1
            self.holder = Holder(member=member, run=run, token=self.revision, lease_id=lease_id)
            self.world.tell("%s leads the controllers with token %d", member.id, self.revision)

    def release(self, token):
        if self.holder is not None and self.holder.token == token:
            self.holder = None
            self.revision += 1

    # The entry

    def commit(self, wanted, basis: Kept, token):
        """Store an entry; raises EntryMoved or Deposed like a backend."""
        leader = self.leader()
        if self.core.fences and (leader is None or leader.token != token):
            raise Deposed("deposed")
        if self.core.compares and basis.revision != self.kept.revision:
            raise EntryMoved("moved")
        before = self.kept
        self.revision += 1
        self.kept = Kept(wanted, self.revision)
        self.past.append((self.kept, self.revision))
        self.world.stored(before, self.kept, basis, token, leader)
        return self.kept

    # What goes wrong

    def check(self, controller):
        if self.is_down or controller.is_cut_from_store:
            raise OutcomeUnknown("the store does not answer")

    def restore(self, commits_ago):
        self.kept, self.revision = self.past[max(0, len(self.past) - 1 - commits_ago)]
        self.holder = None
        self.leases.clear()
        self.run += 1
