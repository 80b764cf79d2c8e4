"""Watchers and what they were sent, counted since the start; a scrape reads it."""

from collections import Counter
from typing import Literal

import msgspec

from namesrv.core.route_changes.watch_cursor import GapReason

#: What is watched; a label of the metrics.
WatchKind = Literal["routes", "cluster"]


class WatchCounts(msgspec.Struct):
    """Plain numbers, one set for each kind of watch."""

    #: Open now.
    watchers: int = 0
    #: Events sent, each once for each watcher that got it.
    events: int = 0
    gaps: Counter[GapReason] = msgspec.field(default_factory=Counter)
    #: Watchers that read nothing for a minute.
    stalled: int = 0
    #: Those beyond the limit.
    refused: int = 0
