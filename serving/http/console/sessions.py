"""The sessions of people who signed in to the console: values and rules; ids and the time come from outside."""

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal

from serving.http.admin_access import AdminToken

#: A session ends so long after its sign-in.
SESSION_MS: Final = 8 * 60 * 60 * 1000

#: Sessions at one time; another sign-in ends the oldest.
SESSIONS_MAX: Final = 64

#: `read`: signed in with the token of consoleReadTokenFile. `change`: with that of httpAdminTokenFile.
Rights = Literal["read", "change"]


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """What one sign-in permits."""

    rights: Rights
    #: Monotonic ms.
    ends_ms: int
    #: Sent to other servers with requests that change something. In memory only: the server has no password of its
    #: own for others, so nobody can do more over the console than with the token that they hold.
    token: str = field(repr=False)


class ConsoleSessions:
    """The open sessions by the digest of their ids; they end with the process."""

    def __init__(self, admin: AdminToken, reader: AdminToken, new_id: Callable[[], str]) -> None:
        """Take the tokens in force, and what makes an id that nobody guesses."""
        self._tokens: dict[Rights, AdminToken] = {"change": admin, "read": reader}
        self._new_id = new_id
        #: The oldest first.
        self._open: dict[bytes, ConsoleSession] = {}

    @property
    def can_open(self) -> bool:
        return any(token.is_set for token in self._tokens.values())

    @property
    def needs_reader(self) -> bool:
        """Whether reading has a token of its own, so that nobody reads without a session."""
        return self._tokens["read"].is_set

    def open(self, token: str, now_ms: int) -> tuple[str, ConsoleSession] | None:
        """Open a session and return its id; None if the token is none of those in force."""
        rights = next((each for each, known in self._tokens.items() if known.is_same(token)), None)
        if rights is None:
            return None
        for digest in [each for each, session in self._open.items() if session.ends_ms <= now_ms]:
            del self._open[digest]
        if len(self._open) >= SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        session_id, session = self._new_id(), ConsoleSession(rights, now_ms + SESSION_MS, token)
        self._open[_digest(session_id)] = session
        return session_id, session

    def find(self, session_id: str, now_ms: int) -> ConsoleSession | None:
        """Return the session of an id; None if there is none, it has ended, or its token is withdrawn."""
        session = self._open.get(_digest(session_id))
        if session is None:
            return None
        if session.ends_ms > now_ms and self._tokens[session.rights].is_same(session.token):
            return session
        self.close(session_id)
        return None

    def close(self, session_id: str) -> None:
        self._open.pop(_digest(session_id), None)


def _digest(session_id: str) -> bytes:
    # How long a lookup takes says something of what is looked up: of a digest that is of no use.
    return sha256(session_id.encode(errors="surrogateescape")).digest()
