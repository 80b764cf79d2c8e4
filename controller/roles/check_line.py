"""The lines of a role check: what a client sends, and what it is answered. Pure.

A client sends `BROKERNAME/BROKERID` and a line end, and is answered one line in the form of HAProxy's agent-check
(HAProxy 2.6, configuration manual 5.2 "agent-check"): `up ready` or `down`, with the reason as a comment. A line with
nothing but a comment changes nothing there; that is the answer in doubt. `leader` asks for the controller itself.
"""

from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.verdict import RoleAnswer, RoleVerdict

#: A longer line is not read; a brokerName has 255 characters at most.
LINE_BYTES_MAX: Final = 300
#: Digits of a broker id.
_ID_DIGITS_MAX: Final = 19
_LEADER: Final = "leader"

#: Answers about the controller: HAProxy sends its checks on to the one that leads.
LEADS: Final = b"up #this controller leads\n"
FOLLOWS: Final = b"down #this controller does not lead\n"
INVALID: Final = b"#unknown the line must be BROKERNAME/BROKERID, or leader\n"


class LeaderQuery(NamedTuple):
    """Asks whether this controller leads."""


def decode_check(line: bytes) -> BrokerKey | LeaderQuery | None:
    """Return what a line without its end asks for; None if it is invalid."""
    try:
        text = line.strip().decode()
    except UnicodeDecodeError:
        return None
    if text == _LEADER:
        return LeaderQuery()
    broker_name, _, digits = text.rpartition("/")
    if not broker_name or not (digits.isascii() and digits.isdigit()) or len(digits) > _ID_DIGITS_MAX:
        return None
    return BrokerKey(broker_name, int(digits))


def encode_answer(answer: RoleAnswer) -> bytes:
    """Return the line that answers the role of a broker."""
    match answer.verdict:
        case RoleVerdict.SERVES:
            # HAProxy takes what follows for a comment; agents on brokers' hosts read the epoch.
            return f"up ready #epoch {answer.master_epoch}\n".encode()
        case RoleVerdict.UNKNOWN:
            return f"#unknown {answer.doubt}\n".encode()
        case _:
            return f"down #{answer.verdict.value} epoch {answer.master_epoch}\n".encode()
