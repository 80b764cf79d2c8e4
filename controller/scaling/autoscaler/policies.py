"""Policies: within which limits the queues of a topic may be resized, and who decides on it. Values only.

Of several policies that match a topic, one holds: that with its exact name, else that with the longest pattern, counted
without `*` and `?`; of equally long ones the first.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from remoting.protocol.topic_kinds import TopicKind, kind_of
from serving.config.name_patterns import NamePattern, is_pattern, literal_length

#: Queues of a topic on one broker set: no policy allows more.
QUEUES_MAX: Final = 1024

#: Topics whose policies are remembered; beyond it all are looked up anew.
MATCHES_MAX: Final = 20_000


class PolicyMode(StrEnum):
    """Who decides on a resize; the values are those of the property `mode`."""

    #: It is shown, and changes nothing.
    PROPOSE = "propose"
    #: It waits for an operator.
    APPROVE = "approve"
    #: It is carried out.
    AUTO = "auto"


class ScalingPolicy(Struct, frozen=True, kw_only=True):
    """How the queues of some topics may be resized; counts are those of each broker set."""

    #: The name of a topic, or a pattern of names: `*` stands for any characters, `?` for one.
    topic: str
    queues_min: int = 4
    queues_max: int = 128
    #: A resize multiplies or divides the count by this, as many times as are needed.
    step: float = 2.0
    #: So long after the end of a resize there is no other.
    cooldown_ms: int = 10 * 60_000
    #: So long a finding must hold before there is a resize.
    window_ms: int = 45_000
    #: A group that is so far behind needs help.
    behind_ms: int = 30_000
    #: Messages a second that a queue, and a broker with all its topics, were measured to take at most; None: unknown.
    queue_writes_max: float | None = None
    broker_writes_max: float | None = None
    mode: PolicyMode = PolicyMode.PROPOSE

    @property
    def is_pattern(self) -> bool:
        """Whether it is about all topics that match."""
        return is_pattern(self.topic)


class PolicyTable:
    """All policies that are in force; new ones make another table."""

    def __init__(self, policies: Sequence[ScalingPolicy] = ()) -> None:
        self.policies = tuple(policies)
        self._exact = {each.topic: each for each in policies if not each.is_pattern}
        patterns = sorted((each for each in policies if each.is_pattern), key=lambda each: -literal_length(each.topic))
        self._patterns = [(NamePattern(each.topic), each) for each in patterns]
        self._matches: dict[str, ScalingPolicy | None] = {}

    def policy_of(self, topic: str) -> ScalingPolicy | None:
        """Return the policy that holds for a topic; None if there is none.

        Patterns never match retry, dead-letter and system topics: `*` means an operator's own.
        """
        if topic not in self._matches:
            if len(self._matches) >= MATCHES_MAX:
                self._matches.clear()
            self._matches[topic] = self._looked_up(topic)
        return self._matches[topic]

    def _looked_up(self, topic: str) -> ScalingPolicy | None:
        if topic in self._exact or kind_of(topic, ()) is not TopicKind.NORMAL:
            return self._exact.get(topic)
        return next((policy for pattern, policy in self._patterns if pattern.matches(topic)), None)
