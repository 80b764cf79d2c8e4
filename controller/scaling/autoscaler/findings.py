"""What is found of a topic, and whether more queues would help. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


class Effect(StrEnum):
    """What more queues would do; the values are shown to operators."""

    HELP = "queues help"
    DO_NOT_HELP = "queues do not help"
    UNKNOWN = "unknown"
    NOT_NEEDED = "not needed"


class FindingKind(StrEnum):
    """What can be found; the values are shown to operators."""

    CLIENTS_WITHOUT_QUEUE = "clients_without_queue"
    ORDERLY_QUEUES_AT_LIMIT = "orderly_queues_at_limit"
    UNEVEN_QUEUES = "uneven_queues"
    WRITES_NEAR_LIMIT = "writes_near_limit"
    RAMP_AHEAD = "ramp_ahead"
    DAILY_PEAK_AHEAD = "daily_peak_ahead"
    ANALYSIS_PROPOSES_MORE = "analysis_proposes_more"
    SLOW_LISTENER = "slow_listener"
    HOT_KEY = "hot_key"
    SLOW_BROKER = "slow_broker"
    OFFSETS_STAND_STILL = "offsets_stand_still"
    NO_CLIENTS = "no_clients"
    SHARED_QUEUES = "shared_queues"
    MISSING_DATA = "missing_data"
    CALM = "calm"


_EFFECTS = {
    FindingKind.CLIENTS_WITHOUT_QUEUE: Effect.HELP,
    FindingKind.ORDERLY_QUEUES_AT_LIMIT: Effect.HELP,
    FindingKind.UNEVEN_QUEUES: Effect.HELP,
    FindingKind.WRITES_NEAR_LIMIT: Effect.HELP,
    FindingKind.RAMP_AHEAD: Effect.HELP,
    FindingKind.DAILY_PEAK_AHEAD: Effect.HELP,
    FindingKind.ANALYSIS_PROPOSES_MORE: Effect.HELP,
    FindingKind.MISSING_DATA: Effect.UNKNOWN,
    FindingKind.CALM: Effect.NOT_NEEDED,
}


class FindingKey(NamedTuple):
    """The same finding at another moment has the same key."""

    kind: FindingKind
    #: The group, or the broker set; blank for the topic.
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found."""

    kind: FindingKind
    #: The group, or the broker set, that it is about; blank for the topic.
    subject: str = ""
    #: What was seen, with the numbers.
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def effect(self) -> Effect:
        """What more queues would do about it."""
        return _EFFECTS.get(self.kind, Effect.DO_NOT_HELP)

    @property
    def key(self) -> FindingKey:
        """What it is the same by."""
        return FindingKey(self.kind, self.subject)
