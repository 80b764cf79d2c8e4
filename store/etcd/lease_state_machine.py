"""Who leads a group of controllers, as one of them knows it: what it does next, and until when it may lead.

The leader is who holds the key `leader` of the store, bound to a lease. Whoever leads stops by itself a margin before
the lease can end, without asking anybody. Time is an argument; `lease.py` performs the steps. Answers to
the roles of DLedger in the Java controller.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from store.store import ControllerMember

#: How long the key `leader` outlives a leader that does not renew it.
LEASE_TTL_S: Final = 5
RENEW_EVERY_MS: Final = 1500
#: How long before the lease may end its holder has stopped: for clocks that do not run alike.
MARGIN_MS: Final = 1000
#: How often the key is looked at although its changes are watched: a watch can be broken without anybody noticing.
LOOK_EVERY_MS: Final = 1500
#: How long after a step that failed the next one begins.
RETRY_MS: Final = 200
#: How long a controller that has passed the lead on leaves it to others.
CAMPAIGN_AGAIN_MS: Final = 10_000


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    member: ControllerMember
    #: Which run of that controller's process: a restarted one is another holder.
    run: str
    #: The create revision of the key: no two holders have the same, but where the store was put back to an older state.
    token: int
    lease_id: int


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The lease under which this controller stands for election and leads."""

    id: int
    #: When its last renewal that succeeded was sent; it lives for the whole TTL from then on.
    renewed_ms: int
    #: As the store has granted it: it may be another one than was requested.
    ttl_s: int = LEASE_TTL_S

    @property
    def until_ms(self) -> int:
        """Until when its holder may lead."""
        return self.renewed_ms + self.ttl_s * 1000 - MARGIN_MS


class Look(msgspec.Struct, frozen=True):
    """Read the key `leader`."""


class GrantLease(msgspec.Struct, frozen=True):
    """Request a lease."""


class Campaign(msgspec.Struct, frozen=True):
    """Create the key `leader` under this lease, if there is none."""

    lease_id: int


class Renew(msgspec.Struct, frozen=True):
    lease_id: int


class Release(msgspec.Struct, frozen=True):
    """Delete the key `leader` if it is this one."""

    holder: Holder


class Leave(msgspec.Struct, frozen=True):
    """Delete the key `leader` if this is its create revision, give the lease back, and take no further step."""

    token: int
    lease_id: int | None


class Wait(msgspec.Struct, frozen=True):
    """Do nothing until then, or until something is reported."""

    until_ms: int


Step = Look | GrantLease | Campaign | Renew | Release | Leave | Wait


class Leads(msgspec.Struct, frozen=True):
    """This controller leads until then (monotonic ms)."""

    until_ms: int


class Follows(msgspec.Struct, frozen=True):
    """This controller does not lead; None: nobody is known to."""

    leader: ControllerMember | None


LeadershipRole = Leads | Follows


class Leadership(msgspec.Struct, frozen=True, kw_only=True):
    """All that one controller knows about who leads; each thing it learns makes another."""

    me: ControllerMember
    run: str
    lease: Lease | None = None
    #: The create revision of the key `leader` while it is this controller's; 0 if it does not lead.
    token: int = 0
    #: Who held the key when it was last seen.
    holder: Holder | None = None
    #: When the store last reported who holds the key; None if that is too long ago to be believed.
    seen_ms: int | None = None
    #: The revision of the store of which `holder` is known.
    seen_revision: int = 0
    #: The highest revision of the store that any answer or event had.
    known_revision: int = 0
    look_due_ms: int = 0
    #: No step begins before.
    pause_until_ms: int = 0
    #: This controller does not stand for election before.
    campaigns_from_ms: int = 0
    #: Nothing was seen yet: a key of the same member is left over from an earlier run of it.
    is_new: bool = True
    is_leaving: bool = False

    @property
    def role(self) -> LeadershipRole:
        if self.token and self.lease is not None and not self.is_leaving:
            return Leads(self.lease.until_ms)
        if self.holder is None or self.seen_ms is None or self.holder.member == self.me:
            return Follows(None)
        return Follows(self.holder.member)

    def at(self, now_ms: int) -> "Leadership":
        """Return what is left of it by then: nobody leads past a lease, or is believed to lead for ever."""
        if self.token and (self.lease is None or now_ms >= self.lease.until_ms):
            return self.without_key()
        if self.seen_ms is not None and now_ms >= self.seen_ms + LEASE_TTL_S * 1000:
            return replace(self, seen_ms=None, look_due_ms=0)
        return self

    def next_step(self, now_ms: int) -> Step:
        """Return what to do now; one of the methods below takes the result."""
        if self.is_leaving:
            return Leave(self.token, None if self.lease is None else self.lease.id)
        if now_ms < self.pause_until_ms:
            return Wait(self.pause_until_ms)
        if self.token and self.lease is not None:
            return self._step_of_leader(self.lease, now_ms)
        return self._step_of_follower(now_ms)

    def _step_of_leader(self, lease: Lease, now_ms: int) -> Step:
        renew_due_ms = lease.renewed_ms + RENEW_EVERY_MS
        if now_ms >= renew_due_ms:
            return Renew(lease.id)
        if now_ms >= self.look_due_ms:
            return Look()
        return Wait(min(renew_due_ms, self.look_due_ms))

    def _step_of_follower(self, now_ms: int) -> Step:
        if self.seen_ms is None or now_ms >= self.look_due_ms:
            return Look()
        if self.holder is None:
            if now_ms < self.campaigns_from_ms:
                return Wait(min(self.campaigns_from_ms, self.look_due_ms))
            if self.lease is None or now_ms >= self.lease.renewed_ms + RENEW_EVERY_MS:
                return GrantLease()
            return Campaign(self.lease.id)
        if self.is_left_over(self.holder):
            return Release(self.holder)
        return Wait(self.look_due_ms)

    def is_left_over(self, holder: Holder) -> bool:
        """Whether the key is this controller's, but not one under which it leads."""
        # Another process under the same id is only taken for an earlier run of this one when this one begins. Two that
        # live at once would otherwise depose each other for ever. What was under way there fails by its run and token.
        return holder.run == self.run or (self.is_new and holder.member == self.me)

    def looked(self, holder: Holder | None, revision: int, now_ms: int, *, known_before: int) -> "Leadership":
        """Record who holds the key at this revision of the store, read when `known_before` was the highest known.

        A lower one means that a backup was restored. What is known of the sets is not what is stored, even if the key
        is in the backup: whoever leads begins again.
        """
        known = replace(self, seen_ms=now_ms, look_due_ms=now_ms + LOOK_EVERY_MS, pause_until_ms=0)
        if revision < known_before:
            known = replace(
                known, token=0, lease=None, known_revision=revision, seen_revision=min(revision, self.seen_revision)
            )
        seen = known.observed(holder, revision)
        is_new = self.is_new and holder is not None and seen.is_left_over(holder)
        return replace(seen, is_new=is_new)

    def observed(self, holder: Holder | None, revision: int) -> "Leadership":
        """Record a change of the key; what is older than what is known changes nothing."""
        if revision < self.seen_revision:
            return self
        seen = replace(self, holder=holder, seen_revision=revision).revision_seen(revision)
        if self.token:
            # Where the store was put back to an older state, its revisions come again.
            is_mine = holder is not None and (holder.token, holder.run) == (self.token, self.run)
            return seen if is_mine else seen.without_key()
        if holder is not None and self.lease is not None and holder.lease_id == self.lease.id:
            return replace(seen, token=holder.token, is_new=False)  # the answer to a campaign was lost
        return seen

    def revision_seen(self, revision: int) -> "Leadership":
        return replace(self, known_revision=max(revision, self.known_revision))

    def recheck(self) -> "Leadership":
        """Record that something is not as it was thought: look at once."""
        return replace(self, look_due_ms=0)

    def granted(self, lease_id: int, *, ttl_s: int, sent_ms: int) -> "Leadership":
        """Record the lease requested at that time, and for how long it was granted."""
        return replace(self, lease=Lease(id=lease_id, renewed_ms=sent_ms, ttl_s=ttl_s), pause_until_ms=0)

    def renewed(self, lease_id: int, *, ttl_s: int, sent_ms: int) -> "Leadership":
        """Record what came of a renewal sent at that time; a TTL of 0: the lease is gone."""
        if self.lease is None or self.lease.id != lease_id:
            return self
        if ttl_s <= 0:
            return self.without_key()
        return replace(self, lease=Lease(id=lease_id, renewed_ms=sent_ms, ttl_s=ttl_s), pause_until_ms=0)

    def released(self) -> "Leadership":
        """Record that a key left over was deleted, or has changed meanwhile."""
        return replace(self.recheck(), is_new=False, pause_until_ms=0)

    def failed(self, now_ms: int) -> "Leadership":
        """Record that a step came to nothing, or that nobody knows what it came to."""
        return replace(self.recheck(), pause_until_ms=now_ms + RETRY_MS)

    def passed_on(self, now_ms: int) -> "Leadership":
        """Record that this controller cannot lead now: the key is released, and left to others for a while."""
        return replace(self.without_key(), campaigns_from_ms=now_ms + CAMPAIGN_AGAIN_MS)

    def leaving(self) -> "Leadership":
        return replace(self, is_leaving=True)

    def left(self) -> "Leadership":
        return replace(self, token=0, lease=None)

    def without_key(self) -> "Leadership":
        """Record that this controller does not lead, nor has a lease under which it could."""
        return replace(self, token=0, lease=None, look_due_ms=0)
