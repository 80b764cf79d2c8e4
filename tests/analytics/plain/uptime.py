"""What each NameServer knew of each broker, and when a broker was down: what A1, A3, A11 and A14 are made of.

- A NameServer has a broker from its registration until it leaves. One that was silent is down since it was heard last,
  by this NameServer or, if later, by a controller; one whose connection ended, since that moment. Until a silent one
  was given up, it is not sure that it was down.
- A broker id whose process took another one of its set is nobody's from then on, and not down.
- A NameServer that has just started knows nothing of a broker before it registers; if it does not within its timeout,
  the NameServer has it not, and it is down there.
- A broker is down while fewer than a majority of the NameServers that know its state have it.
"""

from collections import defaultdict
from itertools import groupby, pairwise
from typing import NamedTuple

from history.server_rows import HEARTBEATS_MISSING
from plain.spans import Span, common
from plain.watching import Boot, Row, Rows, boots, number, servers, watched

#: What a NameServer gives a broker that says nothing of a timeout.
TIMEOUT_US = 120_000_000

#: Servers close connections on which nothing came for so long.
IDLE_MS = 120_000

HAVE = "have"
SILENT = "silent"
PLANNED = "planned"
#: It has not registered there yet, nor anywhere else long ago.
UNKNOWN = "unknown"
#: Its process took another broker id.
MOVED = "moved"


class Key(NamedTuple):
    """Which broker."""

    cluster: str
    broker_name: str
    broker_id: int


class Piece(NamedTuple):
    """A NameServer knew that it had a broker, or that it had it not, for some time."""

    ns_id: str
    state: str
    from_us: int
    to_us: int
    #: From when on it is sure.
    sure_us: int = 0
    #: Where it had the broker.
    address: str = ""


class Outage(NamedTuple):
    """A broker was down; what of that was observed."""

    planned: bool
    spans: list[Span]
    #: What of it is sure.
    sure: list[Span]

    @property
    def from_us(self) -> int:
        """When it went down."""
        return self.spans[0][0]


class Life(NamedTuple):
    """A broker as most NameServers saw it."""

    up: list[Span]
    outages: list[Outage]


def pieces(rows: Rows, end_us: int) -> dict[Key, list[Piece]]:
    """Return what each NameServer knew of each broker while it was watching."""
    reported: dict[Key, list[Piece]] = defaultdict(list)
    for ns_id in servers(rows):
        seen = watched(rows, ns_id)
        for key, piece in _Memory(rows, ns_id, end_us).reported():
            for begin, end in common([(piece.from_us, piece.to_us)], seen):
                reported[key].append(piece._replace(from_us=begin, to_us=end))
    return reported


def lives(rows: Rows, end_us: int) -> dict[Key, Life]:
    """Return when each broker was up and when it was down."""
    return {key: _life(reported) for key, reported in pieces(rows, end_us).items()}


def _life(reported: list[Piece]) -> Life:
    edges = sorted({edge for piece in reported for edge in (piece.from_us, piece.to_us, piece.sure_us)})
    up: list[Span] = []
    outages: list[Outage] = []
    was_up = True
    for begin, end in pairwise(edges):
        now = [piece for piece in reported if piece.from_us <= begin < piece.to_us]
        states = [piece.state for piece in now]
        if not states:
            continue
        majority = len(states) // 2 + 1
        is_up = states.count(HAVE) >= majority
        if not is_up and not up and not outages and set(states) <= {HAVE, UNKNOWN}:
            # That others hear of a new broker a moment later is no outage.
            continue
        is_sure = sum(piece.state == HAVE or begin < piece.sure_us for piece in now) < majority
        sure = [(begin, end)] if is_sure else []
        if is_up:
            up.append((begin, end))
        elif MOVED in states:
            is_up = True
        elif was_up:
            outages.append(Outage(PLANNED in states, [(begin, end)], sure))
        else:
            last = outages[-1]
            planned = last.planned or PLANNED in states
            outages[-1] = Outage(planned, [*last.spans, (begin, end)], [*last.sure, *sure])
        was_up = is_up
    return Life(up, outages)


class _Memory:
    """One NameServer, as its rows tell."""

    def __init__(self, rows: Rows, ns_id: str, end_us: int) -> None:
        self._rows, self._ns_id, self._end_us = rows, ns_id, end_us
        self._signs = signs_of_life(rows)
        self._state: dict[Key, tuple[str, int]] = {}
        #: When those that are silent were given up.
        self._given_up: dict[Key, int] = {}
        self._address: dict[Key, str] = {}
        self._timeout_us: dict[Key, int] = {}
        #: Brokers that it or another NameServer had, and since when.
        self._exists = _first_heartbeats(rows)
        #: Brokers whose process took another broker id.
        self._moved: set[Key] = set()
        self._done: list[tuple[Key, Piece]] = []

    def reported(self) -> list[tuple[Key, Piece]]:
        """Return all pieces."""
        own = [row for row in self._rows["broker_state"] if row["ns_id"] == self._ns_id]
        for boot in boots(self._rows, self._ns_id):
            self._state = {}
            of_boot = sorted((row for row in own if row["boot_id"] == boot.boot_id), key=number)
            resumed = self._resumed(boot)
            for at_us, together in groupby(of_boot, key=lambda row: row["event_time"]):
                while resumed and resumed[0] <= at_us:
                    self._doubt(resumed.pop(0))
                self._take(at_us, list(together))
            for at_us in resumed:
                self._doubt(at_us)
            self._finish(boot)
        return self._done

    def _resumed(self, boot: Boot) -> list[int]:
        """Return when this process could record again who came and left."""
        rows = self._rows["ns_lifecycle"]
        return sorted(
            row["event_time"]
            for row in rows
            if (row["boot_id"], row["event_type"]) == (boot.boot_id, "recording_resumed")
            and row.get("reason") != HEARTBEATS_MISSING
        )

    def _doubt(self, at_us: int) -> None:
        """Wait for those that were not there before recording paused as for all others at a start."""
        for key, (state, since_us) in list(self._state.items()):
            if state in (SILENT, PLANNED):
                self._report(key, at_us)
                self._state[key] = (state, max(since_us, at_us + self._timeout_us.get(key, TIMEOUT_US)))

    def _take(self, at_us: int, together: list[Row]) -> None:
        """Take all that happened at one moment: the set's columns tell how it stands after all of it."""
        for row in together:
            if row.get("broker_id") is not None:
                self._about(key_of(row), row, at_us)
        last = {(row["cluster"], row["broker_name"]): row for row in together if row.get("set_ids") is not None}
        for row in last.values():
            self._compare(row, at_us)
        if any(row["event_type"] == "snapshot" for row in together):
            shown = {(row["cluster"], row["broker_name"]) for row in together if row["event_type"] == "snapshot"}
            had = [key for key, (state, _) in self._state.items() if state == HAVE]
            for key in [key for key in had if (key.cluster, key.broker_name) not in shown]:
                # Rows of a snapshot are not all of one moment: it is not there if it does not register in time.
                self._lose(key, at_us, SILENT)
                self._state[key] = (SILENT, self._state[key][1] + self._timeout_us.get(key, TIMEOUT_US))

    def _about(self, key: Key, row: Row, at_us: int) -> None:
        if "timeout_ms" in row:
            self._timeout_us[key] = row["timeout_ms"] * 1000
        match row["event_type"]:
            case "registered_first" | "changed" | "address_changed" | "role_changed":
                self._gain(key, at_us, row.get("broker_addr", ""))
            case "unregistered":
                self._lose(key, at_us, PLANNED)
            case "channel_closed" if not ended_by_timeout(row):
                self._lose(key, at_us, SILENT)
            case "channel_closed":
                self._lose(key, row["last_heartbeat_time"], SILENT)
                self._given_up[key] = at_us
            case "expired":
                last_heartbeat = [row["last_heartbeat_time"], *self._signs[row["broker_name"], row.get("broker_addr")]]
                self._lose(key, max(each for each in last_heartbeat if each <= at_us), SILENT)
                self._given_up[key] = at_us

    def _compare(self, row: Row, at_us: int) -> None:
        """Take the members of a set as they are told."""
        members = dict(zip(row["set_ids"], row["set_addrs"], strict=True))
        place = (row["cluster"], row["broker_name"])
        for key in [key for key, (state, _) in self._state.items() if key[:2] == place and state == HAVE]:
            if key.broker_id in members:
                continue
            if self._address[key] in members.values() or row["event_type"] != "snapshot":
                self._report(key, at_us)
                self._state[key] = (MOVED, at_us)
                self._moved.add(key)
            else:
                self._lose(key, at_us, SILENT)
        for broker_id, address in members.items():
            self._gain(Key(*place, broker_id), at_us, address)

    def _gain(self, key: Key, at_us: int, address: str) -> None:
        if key not in self._state or self._state[key][0] != HAVE or self._address[key] != address:
            self._report(key, at_us)
            self._state[key] = (HAVE, at_us)
        self._address[key] = address
        for other in [each for each, known in self._address.items() if known == address and each[:2] == key[:2]]:
            if other != key and self._state.get(other, ("", 0))[0] not in (HAVE, MOVED):
                # Also if this server was down when it moved.
                self._report(other, at_us)
                self._state[other] = (MOVED, at_us)
                self._moved.add(other)
        self._moved.discard(key)

    def _lose(self, key: Key, at_us: int, why: str) -> None:
        if key in self._state and self._state[key][0] == HAVE:
            self._given_up.pop(key, None)
            self._report(key, at_us)
            self._state[key] = (why, max(at_us, self._state[key][1]))

    def _report(self, key: Key, until_us: int) -> None:
        if key in self._state:
            state, since_us = self._state[key]
            sure_us = self._given_up.get(key, 0) if state == SILENT else 0
            address = self._address[key] if state == HAVE else ""
            self._done.append((key, Piece(self._ns_id, state, since_us, until_us, sure_us, address)))

    def _finish(self, boot: Boot) -> None:
        """End what is known with the process; tell which brokers it never heard though it had the time."""
        last_heartbeat = defaultdict(lambda: boot.end_us)
        for key, piece in self._done:
            if boot.start_us <= piece.from_us <= boot.end_us:
                last_heartbeat[key] = min(last_heartbeat[key], piece.from_us)
        for key, (_, since_us) in self._state.items():
            last_heartbeat[key] = min(last_heartbeat[key], since_us)
            self._report(key, boot.end_us)
        for key, first_us in self._exists.items():
            known_us = boot.start_us + TIMEOUT_US
            until_us = min(last_heartbeat[key], first_us + self._timeout_us.get(key, TIMEOUT_US))
            if first_us >= boot.start_us and known_us < until_us:
                self._done.append((key, Piece(self._ns_id, UNKNOWN, known_us, until_us)))
            since_us = max(boot.start_us, first_us) + self._timeout_us.get(key, TIMEOUT_US)
            if key not in self._moved and since_us < last_heartbeat[key]:
                self._done.append((key, Piece(self._ns_id, SILENT, since_us, last_heartbeat[key])))


def _first_heartbeats(rows: Rows) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for row in rows["broker_state"]:
        if row.get("broker_id") is not None:
            key = key_of(row)
            found[key] = min(found.get(key, row["event_time"]), row["event_time"])
    return found


def key_of(row: Row) -> Key:
    """Return which broker a row is about."""
    return Key(row["cluster"], row["broker_name"], row["broker_id"])


def ended_by_timeout(row: Row) -> bool:
    """Tell whether a connection ended because nothing came for the timeout, or until the server closed it as idle."""
    return bool(row["silent_ms"] >= min(row.get("timeout_ms", IDLE_MS), IDLE_MS))


def signs_of_life(rows: Rows) -> dict[tuple[str, str | None], list[int]]:
    """Return when controllers heard a process, by its set and address: broker ids are others there."""
    found: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for row in rows["heartbeat_summary"]:
        if row["source"] == "controller":
            # A summary is written when a later minute begins, or the broker has left: it was heard in its minute.
            found[row["broker_name"], row.get("broker_addr")].append(row["minute"])
    for row in rows["controller"]:
        if row["event_type"] == "failure_detected" and "last_heartbeat_time" in row:
            found[row["broker_name"], row.get("broker_addr")].append(row["last_heartbeat_time"])
    return found
