"""What of the product is simulated, in one value, so that a test can put something wrong in its place."""

from collections.abc import Callable
from typing import Any, NamedTuple

from controller.decisions.election import decide_election
from controller.decisions.membership import decide_adoption, decide_cleaning, decide_id
from controller.decisions.sync_state import decide_alteration
from controller.detection import Detection
from controller.entry import Decision, Entry
from controller.leadership import Leadership
from controller.live_table import LiveTable


def after(decision: Decision[Any], entry: Entry) -> Entry:
    return decision.after(entry)


class Core(NamedTuple):
    """The rules as they are."""

    decide_id: Callable[..., Any] = decide_id
    decide_adoption: Callable[..., Any] = decide_adoption
    decide_election: Callable[..., Any] = decide_election
    decide_alteration: Callable[..., Any] = decide_alteration
    decide_cleaning: Callable[..., Any] = decide_cleaning
    after: Callable[[Any, Entry], Entry] = after
    live_table: Callable[[], LiveTable] = LiveTable
    detection: Callable[[LiveTable, int], Detection] = Detection
    leadership: Callable[..., Leadership] = Leadership
    #: The store compares the token of the leader, and the revision that was decided on.
    fences: bool = True
    compares: bool = True
