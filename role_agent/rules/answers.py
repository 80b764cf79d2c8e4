"""The lines by which an agent queries controllers and the other agents of its set: pure. docs/role-addresses-vip.md."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: Bytes of a line, with its end; a longer one is invalid.
LINE_BYTES_MAX: Final = 300

_EPOCH: Final = re.compile(r"\bepoch ([0-9]{1,18})\b")
_SUPERSEDED: Final = re.compile(r"\bsuperseded\b")
_NAME: Final = r"[^\s/]{1,127}"
_STATE: Final = "epoch ([0-9]{1,18}) lease ([0-9]{1,5})"
_REQUEST: Final = re.compile(rf"(claim|keep|taken|hello) ({_NAME})/([0-9]{{1,9}}) {_STATE}")
_REPLY: Final = re.compile(rf"(released|granted|refused|noted) {_STATE}")


class Role(StrEnum):
    """What a controller answers about the broker of this host."""

    #: It is the master of the epoch, and serves.
    UP = "up"
    #: It is not to be reached now: it has failed, or a switchover holds its set.
    DOWN = "down"
    #: Another broker is the master, or none.
    SUPERSEDED = "superseded"
    #: Nobody is to change anything.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLine:
    role: Role
    #: Master epoch; None if the line has none, and then `role` is UNKNOWN.
    epoch: int | None
    #: The line, for people.
    text: str


class PeerVerb(StrEnum):
    """What agents of a set request from one another."""

    #: Release the address: the sender's broker is the master of the epoch.
    CLAIM = "claim"
    #: Controllers do not answer the sender, which has the address: do not claim it, as far as is known now.
    KEEP = "keep"
    #: The sender has the address now.
    TAKEN = "taken"
    #: Nothing; it shows that the sender runs, and which lease it has.
    HELLO = "hello"


class PeerReply(StrEnum):
    RELEASED = "released"
    GRANTED = "granted"
    REFUSED = "refused"
    NOTED = "noted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """A request of an agent to another one of its set."""

    verb: PeerVerb
    set_name: str
    broker_id: int
    epoch: int
    #: For how long the sender has the address without a confirmation.
    lease_ms: int

    def line(self) -> str:
        return f"{self.verb} {self.set_name}/{self.broker_id} epoch {self.epoch} lease {self.lease_ms}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAnswer:
    reply: PeerReply
    #: The highest master epoch that the answering agent knows.
    epoch: int
    #: For how long the answering agent has the address without a confirmation.
    lease_ms: int

    def line(self) -> str:
        return f"{self.reply} epoch {self.epoch} lease {self.lease_ms}"


def role_line(text: str) -> RoleLine:
    """Return what the line of a role check port means: `up ready #epoch 12`, `down #superseded epoch 12`, `#unknown`.

    A line without an epoch, as any that is not understood, is UNKNOWN: of two controllers that both answer, only the
    epoch shows which one is right.
    """
    words, _, comment = text.partition("#")
    found = _EPOCH.search(comment)
    epoch = int(found[1]) if found else None
    role = Role.UNKNOWN if epoch is None else _role(words.split(), comment)
    return RoleLine(role=role, epoch=epoch, text=text)


def _role(words: list[str], comment: str) -> Role:
    if "down" in words:
        return Role.SUPERSEDED if _SUPERSEDED.search(comment) else Role.DOWN
    return Role.UP if "up" in words else Role.UNKNOWN


def peer_request(text: str) -> PeerRequest | None:
    found = _REQUEST.fullmatch(text)
    if found is None:
        return None
    verb, set_name, *numbers = found.groups()
    broker_id, epoch, lease_ms = map(int, numbers)
    return PeerRequest(verb=PeerVerb(verb), set_name=set_name, broker_id=broker_id, epoch=epoch, lease_ms=lease_ms)


def peer_answer(text: str) -> PeerAnswer | None:
    found = _REPLY.fullmatch(text)
    if found is None:
        return None
    return PeerAnswer(reply=PeerReply(found[1]), epoch=int(found[2]), lease_ms=int(found[3]))
