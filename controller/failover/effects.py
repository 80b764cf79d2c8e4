"""What is done once a decision is stored, as values; `wire/` carries them out."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import Probe, ProbeOutcome


class Recipient(NamedTuple):
    """A broker to notify."""

    broker_id: int
    address: str


class NotifyRoleChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Notify living brokers of their master; a later one for the same broker takes its place."""

    broker_name: str
    #: The number of the election in the log of elections.
    election: int
    master: Recipient
    master_epoch: int
    sync_state_set: tuple[int, ...]
    sync_state_set_epoch: int
    recipients: tuple[Recipient, ...]
    #: When the election was stored; monotonic ms.
    since_ms: int


class ProbeBroker(msgspec.Struct, frozen=True, kw_only=True):
    """Probe a suspect broker."""

    probe: Probe
    #: Where it is by the store: whoever sends heartbeats under its id may be another process.
    address: str
    #: Takes the result, and the other end of the connection; blank without an answer.
    report: Callable[[BrokerKey, ProbeOutcome, str], None]


class CheckReachability(msgspec.Struct, frozen=True, kw_only=True):
    """Probe whether a broker that sends heartbeats is reachable; nothing follows if it is not."""

    key: BrokerKey
    address: str


Effect = NotifyRoleChanged | ProbeBroker | CheckReachability
