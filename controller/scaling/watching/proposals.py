"""Proposals that wait for an operator. Pure.

They are in the memory of the leader alone: a new leader makes them anew, once its windows hold what was found.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from controller.scaling.autoscaler.decision import ScalingVerdict

#: A proposal ends if no verdict has confirmed it for so long.
UNCONFIRMED_MS: Final = 120_000
#: And after so long in any case: what it was made of is old.
WAIT_MS: Final = 86_400_000
#: So long after it was dismissed, the same count is not proposed again.
DISMISSED_MS: Final = 86_400_000
#: Dismissed proposals that are remembered; the oldest is forgotten first.
DISMISSED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A resize that waits for an operator; counts are queues on each set."""

    id: str
    topic: str
    before: int
    target: int
    #: Of the newest verdict.
    reason: str
    created_unix_ms: int
    confirmed_unix_ms: int

    @property
    def expires_unix_ms(self) -> int:
        """When it ends, unless a verdict confirms it before."""
        return min(self.confirmed_unix_ms + UNCONFIRMED_MS, self.created_unix_ms + WAIT_MS)

    def is_over(self, unix_ms: int) -> bool:
        """Return whether it has ended; after a clock was set back nobody knows how old it is, so it has too."""
        return not self.confirmed_unix_ms - UNCONFIRMED_MS < unix_ms < self.expires_unix_ms


class ProposalUnknown(Exception):
    """There is no proposal of that id, or not any more."""

    def __init__(self, proposal_id: str) -> None:
        super().__init__(f"there is no proposal {proposal_id}: it may have expired, or been replaced by another one")


class Proposals:
    """At most one for each topic."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Proposal] = {}
        #: Topic -> the count that was dismissed, and until when.
        self._dismissed: dict[str, tuple[int, int]] = {}

    def waiting(self, unix_ms: int) -> list[Proposal]:
        """Return the proposals that have not expired, by topic."""
        self._expire(unix_ms)
        return [self._by_topic[topic] for topic in sorted(self._by_topic)]

    def propose(self, verdict: ScalingVerdict) -> Proposal | None:
        """Return the proposal that a verdict makes or confirms; None if an operator has dismissed it."""
        unix_ms = verdict.unix_ms
        assert verdict.target is not None, "only a change is proposed"
        assert verdict.before is not None, "nothing is proposed for unknown counts"
        dismissed_target, until_ms = self._dismissed.get(verdict.topic, (None, 0))
        if dismissed_target == verdict.target and unix_ms < until_ms:
            return None
        known = self._by_topic.get(verdict.topic)
        counts = verdict.before, verdict.target
        if known is not None and (known.before, known.target) == counts and not known.is_over(unix_ms):
            confirmed = replace(known, reason=verdict.reason, confirmed_unix_ms=unix_ms)
        else:
            confirmed = Proposal(
                id=f"{verdict.topic}.{unix_ms}",
                topic=verdict.topic,
                before=verdict.before,
                target=verdict.target,
                reason=verdict.reason,
                created_unix_ms=unix_ms,
                confirmed_unix_ms=unix_ms,
            )
        self._by_topic[verdict.topic] = confirmed
        return confirmed

    def of_topic(self, topic: str) -> Proposal | None:
        """Return the proposal for a topic, expired or not."""
        return self._by_topic.get(topic)

    def find(self, proposal_id: str, unix_ms: int) -> Proposal:
        """Return a proposal; raises ProposalUnknown."""
        found = (each for each in self.waiting(unix_ms) if each.id == proposal_id)
        if (proposal := next(found, None)) is None:
            raise ProposalUnknown(proposal_id)
        return proposal

    def dismiss(self, proposal_id: str, unix_ms: int) -> Proposal:
        """Remove a proposal, and remember that nobody wants it; raises ProposalUnknown."""
        proposal = self.find(proposal_id, unix_ms)
        while len(self._dismissed) >= DISMISSED_MAX:
            del self._dismissed[next(iter(self._dismissed))]
        self._dismissed.pop(proposal.topic, None)
        self._dismissed[proposal.topic] = (proposal.target, unix_ms + DISMISSED_MS)
        del self._by_topic[proposal.topic]
        return proposal

    def withdraw(self, topic: str) -> None:
        """Remove the proposal of a topic: it is being resized, or has no such policy any more."""
        self._by_topic.pop(topic, None)

    def keep_only(self, topics: Iterable[str]) -> None:
        """Remove the proposals of all other topics."""
        kept = set(topics)
        self._by_topic = {topic: each for topic, each in self._by_topic.items() if topic in kept}

    def clear(self) -> None:
        """Forget everything."""
        self._by_topic.clear()
        self._dismissed.clear()

    def _expire(self, unix_ms: int) -> None:
        ended = [topic for topic, each in self._by_topic.items() if each.is_over(unix_ms)]
        for topic in ended:
            del self._by_topic[topic]
