"""Who may send requests that change something: whoever shows a token, and no page of another site.

Operators have one token. A server that clients change as a part of their work has a second one, for clients; requests
that are an operator's are not done for it.

A page that reaches this server under a name of its own (DNS rebinding) has an Origin that equals its Host: the token
keeps it out. Values only; `serving/process/admin_token_file.py` reads the file with the token.
"""

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal

from remoting.protocol.addresses import NamedAddress
from remoting.server.connection_limit import network_of
from serving.http.views import HttpRefused

#: Wrong tokens that one network may show within WINDOW_MS.
FAILURES_MAX: Final = 5
WINDOW_MS: Final = 60_000

#: Networks that are remembered, those that tried last. A token has 16 characters or more: a peer with more networks
#: than these still has no chance to guess one.
NETWORKS_MAX: Final = 1024


class TokenTries:
    """The wrong tokens of each network, tries under way included.

    A token that comes again is no new try: a program with an old token guesses nothing, and must not keep others of its
    network out.
    """

    def __init__(self) -> None:
        #: When each try began, and the hash of what it showed, None while it is under way; the network that tried last
        #: stands last.
        self._tries: dict[str, list[tuple[int, int | None]]] = {}

    def begin(self, host: str, now_ms: int) -> int:
        """Count a try of a host that begins now; return 0, or how many ms it has to wait for it."""
        network = network_of(host)
        tries = [each for each in self._tries.pop(network, ()) if each[0] + WINDOW_MS > now_ms]
        is_allowed = len(tries) < FAILURES_MAX
        self._tries[network] = [*tries, (now_ms, None)] if is_allowed else tries
        if len(self._tries) > NETWORKS_MAX:
            del self._tries[next(iter(self._tries))]
        return 0 if is_allowed else tries[0][0] + WINDOW_MS - now_ms

    def end(self, host: str, wrong: str | None = None) -> None:
        """Take the last try of a host back, unless it showed a `wrong` token that it did not show before."""
        tries = self._tries.get(network_of(host), [])
        if under_way := [each for each in tries if each[1] is None]:
            began_ms, _ = under_way[-1]
            tries.remove(under_way[-1])
            if wrong is not None and all(shown != hash(wrong) for _, shown in tries):
                tries.append((began_ms, hash(wrong)))


#: Option with the path of the file.
PROPERTY: Final = "httpAdminTokenFile"

#: Option with the path of the file of the clients' token.
CLIENT_PROPERTY: Final = "clientTokenFile"

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
        return self._digest is not None

    def replace(self, token: str) -> None:
        """Let another token, which is not blank, be the only one from now on."""
        self._digest = _digest(token)

    def is_same(self, token: str) -> bool:
        """Return whether it is this token; how long that takes says nothing about it."""
        return self._digest is not None and hmac.compare_digest(self._digest, _digest(token))


@dataclass(frozen=True, slots=True)
class HttpTokens:
    admin: AdminToken
    #: None: this server has no token for clients, and what they do needs the admin token.
    clients: AdminToken | None = None
    #: Nobody needs a token: whoever reaches the port is trusted.
    is_open: bool = False
    #: Of a server that is bound to loopback: other names under which it is reached. None: it is bound elsewhere.
    loopback_hosts: Sequence[NamedAddress] | None = None
    #: Of all doors together.
    tries: TokenTries = field(default_factory=TokenTries)

    def check_admin(self, headers: "AccessHeaders") -> None:
        """Raise AdminDenied unless an operator sends the request."""
        headers.check_origin(are_pages_refused=self.is_open)
        if not self.is_open:
            headers.check_token(self.admin)

    def check_client(self, headers: "AccessHeaders") -> None:
        """Raise AdminDenied unless a client or an operator sends the request."""
        headers.check_origin(are_pages_refused=self.is_open)
        if self.is_open:
            return
        if self.clients is None:
            headers.check_token(self.admin)
        elif not (headers.shows(self.clients) or headers.shows(self.admin)):
            reason: DenialReason = "wrong_token" if headers.authorizations else "no_token"
            raise AdminDenied(
                reason, f"Send the token of {CLIENT_PROPERTY}, or that of {PROPERTY}, as Authorization: Bearer TOKEN."
            )


@dataclass(frozen=True, slots=True)
class AccessHeaders:
    """The headers of a request that decide who sends it."""

    host: str
    origins: Sequence[str]
    authorizations: Sequence[str]

    def check_origin(self, *, are_pages_refused: bool) -> None:
        """Raise AdminDenied for a page of another site, or for any page: no token would keep DNS rebinding out."""
        # `null` has no host and port, so no Host equals it.
        if any(are_pages_refused or origin.partition("://")[2].lower() != self.host.lower() for origin in self.origins):
            raise AdminDenied(
                "other_origin", "A page of another site may not change anything here: Origin is not Host."
            )

    @property
    def shows_any(self) -> bool:
        """Whether any token is shown; a proxy may send headers of another scheme."""
        return any(_bearer(each) is not None for each in self.authorizations)

    def shows(self, token: AdminToken) -> bool:
        """Return whether this token, and nothing else, is shown."""
        shown = _bearer(self.authorizations[0]) if len(self.authorizations) == 1 else None
        return shown is not None and token.is_same(shown)

    def check_token(self, token: AdminToken) -> None:
        """Raise AdminDenied unless this token of operators is shown."""
        if not token.is_set:
            raise AdminDenied(
                "off",
                f"Changes over HTTP are off: set {PROPERTY} to the path of a file with a token, and restart.",
            )
        if not self.authorizations:
            raise AdminDenied("no_token", f"Send the token of {PROPERTY} as Authorization: Bearer TOKEN.")
        if not self.shows(token):
            raise AdminDenied("wrong_token", f"Authorization is not Bearer with the token of {PROPERTY}.")


def _bearer(authorization: str) -> str | None:
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == _SCHEME else None


def _digest(token: str) -> bytes:
    # Bytes of a header that are no UTF-8 come as surrogates.
    return sha256(token.encode(errors="surrogateescape")).digest()
