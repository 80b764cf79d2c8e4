"""What an error of gRPC means for a call: was it done, may it be repeated, what is an operator to do; pure.

The sentences are etcd's (api/v3rpc/rpctypes/error.go) and gRPC's own.
"""

import enum
from typing import Final

import msgspec


class FailureKind(enum.Enum):
    """What has become of a call that failed."""

    #: It never left this process: any endpoint may be called.
    NOT_SENT = enum.auto()
    #: Nobody knows.
    UNKNOWN = enum.auto()
    #: The token of the user is not, or no longer, known; nothing was done.
    TOKEN_REFUSED = enum.auto()
    #: The requested revision was compacted.
    COMPACTED = enum.auto()
    #: etcd has refused it; another endpoint would as well.
    REFUSED = enum.auto()


class Failure(msgspec.Struct, frozen=True):
    kind: FailureKind
    #: For operators: names the endpoint, and what to do where that is known.
    text: str
    #: There was no answer at all: the connection is not to be used again.
    is_silence: bool = False


_FULL: Final = (
    "; its quota is used up: run `etcdctl compact REVISION`, `etcdctl defrag` and `etcdctl alarm disarm`, and give it "
    "a larger --quota-backend-bytes"
)

#: Messages of etcd or gRPC, and what follows. The first that is found counts.
_KNOWN_ERRORS: Final = (
    ("failed to connect", FailureKind.NOT_SENT, ""),
    ("DNS resolution failed", FailureKind.NOT_SENT, ""),
    ("invalid auth token", FailureKind.TOKEN_REFUSED, ""),
    ("revision of auth store is old", FailureKind.TOKEN_REFUSED, ""),
    ("user name is empty", FailureKind.REFUSED, "; it requires a user and a password"),
    (
        "permission denied",
        FailureKind.REFUSED,
        "; the user needs a role that may read and write the keys of the controllers",
    ),
    ("authentication failed", FailureKind.REFUSED, "; the user or the password is wrong"),
    ("database space exceeded", FailureKind.REFUSED, _FULL),
    ("has been compacted", FailureKind.COMPACTED, ""),
    ("requested lease not found", FailureKind.REFUSED, ""),
    ("request is too large", FailureKind.REFUSED, "; raise its --max-request-bytes"),
    ("too many requests", FailureKind.REFUSED, ""),
    ("Channel closed", FailureKind.UNKNOWN, ""),
)

#: Where a handshake fails the reason is not in this sentence; what usually is behind it.
_HINTS: Final = (
    ("handshake failed", "; do the CA, the certificate and the name of the endpoint match?"),
    ("TSI_", "; does it require a client certificate?"),
    ("Socket closed", "; does it expect TLS?"),
)

#: Codes of a request that was read and refused.
_REFUSALS: Final = frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION", "PERMISSION_DENIED", "UNIMPLEMENTED"})


def failure_of(endpoint: str, code: str, details: str) -> Failure:
    """Return what follows from the name of a gRPC status code and its text."""
    text = details.replace("\n", " ").strip() or code
    for phrase, kind, advice in _KNOWN_ERRORS:
        if phrase in text:
            return Failure(kind, f"etcd at {endpoint}: {text}{advice or _hint(text)}")
    kind = FailureKind.REFUSED if code in _REFUSALS else FailureKind.UNKNOWN
    return Failure(
        kind, f"etcd at {endpoint}: {text}{_hint(text)}", is_silence="DEADLINE" in code or "Deadline" in text
    )


def _hint(text: str) -> str:
    return next((hint for sign, hint in _HINTS if sign in text), "")
