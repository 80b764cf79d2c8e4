"""What an agent was answered, for its log and for `rmq-role-agent status`; decides nothing."""

from collections import deque
from datetime import UTC, datetime
from typing import Final

from role_agent import events
from role_agent.log import AgentLog
from role_agent.rules.answers import Role, RoleLine
from role_agent.settings import AgentSettings

_CHANGES_MAX: Final = 20


class Observed:
    """The last answer of each controller and agent, and the last changes of the address."""

    def __init__(self, settings: AgentSettings, log: AgentLog, now_ms: int) -> None:
        """Begin without any answer."""
        self._settings = settings
        self._log = log
        #: What a controller answered or why it did not, whether it did, and when.
        self._controllers: dict[str, tuple[str, bool, int]] = {
            str(each): ("", False, now_ms) for each in settings.controllers
        }
        #: When an agent last answered, and why its last query failed; blank if it did not.
        self._peers: dict[str, tuple[int, str]] = {str(each): (now_ms, "") for each in settings.peers}
        self._definite_ms = now_ms
        self._is_silent = False
        self._silent_peers: set[str] = set()
        self._changes: deque[dict[str, object]] = deque(maxlen=_CHANGES_MAX)

    def controller_answered(self, controller: str, line: RoleLine, now_ms: int) -> None:
        """Record a line of a controller."""
        self._controllers[controller] = (line.text, True, now_ms)
        if line.role is Role.UNKNOWN:
            return
        self._definite_ms = now_ms
        if self._is_silent:
            self._is_silent = False
            self._log.write(events.CONTROLLERS_ANSWER, controller=controller, answer=line.text)

    def controller_failed(self, controller: str, error: str, now_ms: int) -> None:
        """Record that a controller did not answer."""
        self._controllers[controller] = (f"no answer: {error}", False, now_ms)

    def peer_answered(self, peer: str, lease_ms: int, now_ms: int) -> None:
        """Record an answer of another agent."""
        self._peers[peer] = (now_ms, "")
        if peer in self._silent_peers:
            self._silent_peers.discard(peer)
            self._log.write(events.PEER_ANSWERS, peer=peer)
        self._compare(peer, "lease", lease_ms, differs=lease_ms != self._settings.lease_ms)

    def peer_failed(self, peer: str, error: str, now_ms: int) -> None:
        """Record that another agent did not answer; logged once that has lasted for a lease."""
        answered_ms, _ = self._peers[peer]
        self._peers[peer] = (answered_ms, error)
        if now_ms - answered_ms >= self._settings.lease_ms and peer not in self._silent_peers:
            self._silent_peers.add(peer)
            self._log.write_about(peer, events.PEER_SILENT, {"peer": peer, "error": error})

    def peer_reported(self, peer: str, lease_ms: int, broker_id: int) -> None:
        """Record what another agent is for, as it reported in a request."""
        own = self._settings
        self._compare(peer, "lease", lease_ms, differs=lease_ms != own.lease_ms)
        self._compare(peer, "brokerId", broker_id, differs=broker_id == own.broker_id)

    def changed(self, change: str, epoch: int, unix_ms: int) -> None:
        """Record that the address was taken or released."""
        at = datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
        self._changes.append({"at": at.replace("+00:00", "Z"), "change": change, "masterEpoch": epoch})

    def tick(self, now_ms: int) -> None:
        """Log once if no controller has given a definite answer for a lease."""
        if not self._is_silent and now_ms - self._definite_ms >= self._settings.lease_ms:
            self._is_silent = True
            answers = {controller: text for controller, (text, _, _) in self._controllers.items()}
            self._log.write(events.CONTROLLERS_SILENT, answers=answers)

    def status(self, now_ms: int) -> dict[str, object]:
        """Return the last answers with their age, and the last changes."""
        return {
            "controllers": {
                name: {"answer": text, "answered": answered, "ageMs": now_ms - at_ms}
                for name, (text, answered, at_ms) in self._controllers.items()
            },
            "peers": {
                name: {"answeredBeforeMs": now_ms - at_ms, "error": error}
                for name, (at_ms, error) in self._peers.items()
            },
            "changes": list(self._changes),
        }

    def _compare(self, peer: str, name: str, theirs: object, *, differs: bool) -> None:
        if differs:
            keys: dict[str, object] = {"peer": peer, "property": name, "theirs": theirs}
            self._log.write_about(f"{peer} {name}", events.PEER_DIFFERS, keys)
