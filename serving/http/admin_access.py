"""Who may send requests that change something: whoever shows the admin token, and no page of another site.

A page that reaches this server under a name of its own (DNS rebinding) has an Origin that equals its Host: the token
keeps it out. Values only; `serving/process/admin_token_file.py` reads the file with the token.
"""

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Literal

from serving.http.views import HttpRefused

#: Option with the path of the file.
PROPERTY: Final = "httpAdminTokenFile"

_SCHEME: Final = "bearer"

#: Label of the metric, and key of the log line.
DenialReason = Literal["off", "other_origin", "no_token", "wrong_token"]


class AdminDenied(HttpRefused):
    """A request that changes something comes from somebody who may not send it; nothing of its body was read."""

    def __init__(self, reason: DenialReason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason
        needs_token = reason in ("no_token", "wrong_token")
        self.status = 401 if needs_token else 403
        self.code = "unauthorized" if needs_token else "forbidden"


class AdminToken:
    """The token in force, of which only the digest is in memory; without one, nobody changes anything."""

    def __init__(self, token: str = "") -> None:
        """Take a token; blank for none."""
        self._digest = _digest(token) if token else None

    @property
    def is_set(self) -> bool:
        """Whether there is a token."""
        return self._digest is not None

    def replace(self, token: str) -> None:
        """Let another token, which is not blank, be the only one from now on."""
        self._digest = _digest(token)

    def is_same(self, token: str) -> bool:
        """Return whether it is this token; how long that takes says nothing about it."""
        return self._digest is not None and hmac.compare_digest(self._digest, _digest(token))


def check_admin(token: AdminToken, host: str, origins: Sequence[str], authorizations: Sequence[str]) -> None:
    """Raise AdminDenied unless the headers Host, Origin and Authorization permit to change something."""
    if any(_authority(origin) != host.lower() for origin in origins):
        raise AdminDenied("other_origin", "A page of another site may not change anything here: Origin is not Host.")
    if not token.is_set:
        raise AdminDenied(
            "off",
            f"Requests that change something are off: set {PROPERTY} to the path of a file with a token, and restart.",
        )
    if not authorizations:
        raise AdminDenied("no_token", f"Send the token of {PROPERTY} as Authorization: Bearer TOKEN.")
    shown = _bearer(authorizations[0]) if len(authorizations) == 1 else None
    if shown is None or not token.is_same(shown):
        raise AdminDenied("wrong_token", f"Authorization is not Bearer with the token of {PROPERTY}.")


def _authority(origin: str) -> str:
    """Return host and port of an origin; blank for `null`, which no Host equals."""
    return origin.partition("://")[2].lower()


def _bearer(authorization: str) -> str | None:
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == _SCHEME else None


def _digest(token: str) -> bytes:
    # Bytes of a header that are no UTF-8 come as surrogates.
    return sha256(token.encode(errors="surrogateescape")).digest()
