"""Bodies of the console's own requests and answers, below /ui/; the page alone uses them, so they may change."""

from typing import Literal

import msgspec

from serving.config.console_options import PeerKind


class SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /ui/session."""

    #: Of httpAdminTokenFile or consoleReadTokenFile.
    token: str


class SessionView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the page may do."""

    #: The server of this console: its kind, and its release.
    server: PeerKind
    version: str
    may_read: bool
    may_change: bool
    #: `off`: there is no token to sign in with. `needed`: nothing is shown without. `optional`: to change something.
    sign_in: Literal["off", "needed", "optional"]
    signed_in: bool
    #: In ms from now; None without a session.
    ends_in_ms: int | None


class PeerView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A server whose data the page may request."""

    kind: PeerKind
    #: Of its kind, from 0; the server of this console is number 0 of its own kind.
    number: int
    is_self: bool
    address: str
    reachable: bool
    #: Of its answer to a probe; None without an answer.
    round_trip_ms: int | None
    #: Why it is not reachable; blank if it is.
    problem: str


class WatchedPeer(msgspec.Struct, frozen=True):
    """A server that is watched for a page, or should be."""

    kind: PeerKind
    number: int
    #: `unwatched`: not yet, or it cannot be, or not all routes of the page are; pages load each two seconds what they
    #: show.
    state: Literal["watched", "unreachable", "unwatched"]


class PeerChange(msgspec.Struct, frozen=True):
    """A server where something has changed."""

    kind: PeerKind
    number: int


class LiveView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Data of the events `live` and `changed` of GET /ui/live."""

    #: Nothing has changed since the Last-Event-ID of the page.
    is_current: bool
    watched: list[WatchedPeer]
    changed: list[PeerChange]


class PeersView(msgspec.Struct, frozen=True, rename="camel"):
    """The server of this console, and those of consolePeers."""

    items: list[PeerView]
