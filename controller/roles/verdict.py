"""What a controller knows of the role of one broker: pure.

Whoever moves an address, a proxy or an agent, acts on it. In doubt the verdict is UNKNOWN, and then nobody changes
anything: the control plane is not in the path of messages. Answers to no class of Java's.
"""

from enum import StrEnum
from typing import NamedTuple

from controller.sets.broker_set import BrokerSet


class RoleVerdict(StrEnum):
    """The role of a broker; the values are labels of metrics."""

    #: It is the stored master of the stored epoch, it has changed to master, and it is alive.
    SERVES = "serves"
    #: It is the stored master and has failed: an election is under way.
    FAILED = "failed"
    #: Another broker is the stored master; or none, and this one has failed or was removed from the set.
    SUPERSEDED = "superseded"
    #: A switchover holds the set: nobody is to send to any of its brokers.
    HELD = "held"
    #: Nobody is to change anything.
    UNKNOWN = "unknown"


#: Clients may be sent to the broker, or must not be; of all others nothing follows.
DOWN = frozenset({RoleVerdict.FAILED, RoleVerdict.SUPERSEDED, RoleVerdict.HELD})


class RoleAnswer(NamedTuple):
    verdict: RoleVerdict
    #: Of the stored set; 0 if this controller does not answer for it.
    master_epoch: int
    #: Why it is unknown, in some words; blank for all other verdicts.
    doubt: str = ""
    #: The stored set has this broker.
    is_member: bool = True


class RoleFacts(NamedTuple):
    """What this controller knows of a set, and of one broker of it."""

    #: None if there is none of that name.
    broker_set: BrokerSet | None
    #: This controller leads, knows all that is stored, and its lease is valid.
    leads: bool
    #: A switchover holds the set.
    is_held: bool
    #: Failures are judged: this process was not paused a moment ago.
    judges: bool
    #: Brokers of the set are proven to know a higher master epoch than the store. Claims without proof do not count:
    #: any broker can make them, and they can last.
    is_behind: bool
    #: This broker has failed.
    has_failed: bool
    #: Its heartbeats arrive, and it is not suspect.
    is_trusted: bool
    #: The stored master of the stored epoch has changed to master.
    is_confirmed: bool


def verdict_of(broker_id: int, facts: RoleFacts) -> RoleAnswer:
    if not facts.leads:
        return _unknown("this controller does not lead")
    broker_set = facts.broker_set
    if broker_set is None:
        return _unknown("no such set is stored")
    answer = _verdict_in(broker_set, broker_id, facts)
    return answer if broker_id in broker_set.replicas else answer._replace(is_member=False)


def _verdict_in(broker_set: BrokerSet, broker_id: int, facts: RoleFacts) -> RoleAnswer:
    epoch = broker_set.master_epoch
    if facts.is_held:
        return RoleAnswer(RoleVerdict.HELD, epoch)
    if facts.is_behind:
        return _unknown("its brokers know a higher master epoch than the store", epoch)
    if broker_set.master not in (None, broker_id):
        return RoleAnswer(RoleVerdict.SUPERSEDED, epoch)
    if broker_id not in broker_set.replicas:
        # It is never elected again. But where new brokers began a set whose state was lost, it may lead without being
        # stored.
        return (
            RoleAnswer(RoleVerdict.SUPERSEDED, epoch) if broker_set.is_elected else _unknown("it is not stored", epoch)
        )
    return _verdict_of_master(broker_set, facts)


def _verdict_of_master(broker_set: BrokerSet, facts: RoleFacts) -> RoleAnswer:
    """Return the verdict on the stored master, or on any broker of a set that has none."""
    master, epoch = broker_set.master, broker_set.master_epoch
    if facts.has_failed and facts.judges:
        return RoleAnswer(RoleVerdict.SUPERSEDED if master is None else RoleVerdict.FAILED, epoch)
    doubt = _doubt_about_master(master, facts)
    return _unknown(doubt, epoch) if doubt else RoleAnswer(RoleVerdict.SERVES, epoch)


def _doubt_about_master(master: int | None, facts: RoleFacts) -> str:
    """Return why it is not certain that the stored master serves; blank if it is."""
    doubts = {
        "failure detection is suspended": not facts.judges,
        "the set has no master": master is None,
        "the master is suspect": not facts.is_trusted,
        "the master is not confirmed to serve": not facts.is_confirmed,
    }
    return next((doubt for doubt, holds in doubts.items() if holds), "")


def _unknown(doubt: str, master_epoch: int = 0) -> RoleAnswer:
    return RoleAnswer(RoleVerdict.UNKNOWN, master_epoch, doubt)
