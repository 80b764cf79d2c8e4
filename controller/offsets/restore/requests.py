"""What operators request of restores, and what they get. Pure."""

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.masters import SetName
from controller.offsets.restore.values import PlannedOffset, RestoreOptions
from remoting.protocol.shapes.broker_clients import SYSTEM_GROUP_PREFIX, TOOL_GROUP


class Former(enum.Enum):
    """In place of a moment."""

    #: Before the last role change of a broker set, or the last start of its master.
    FORMER = enum.auto()


FORMER: Final = Former.FORMER
#: For who cannot undo an operation by its id.
UNDONE_WHERE_KEPT: Final = (
    "An operation is undone by the manager that did it, while that one leads. If another one leads now, restore a "
    "moment before it at brokers; reset offsets of managers to the old ones of its answer"
)


class RestoreScope(NamedTuple):
    """Whose offsets; None is all."""

    cluster: str
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None

    def has_set(self, set_name: SetName) -> bool:
        """Return whether a broker set belongs to it."""
        return set_name.cluster == self.cluster and self.broker_name in (None, set_name.broker_name)

    def has_entry(self, key: EntryKey) -> bool:
        """Return whether the offsets of a group in a topic belong to it.

        Those of the brokers' own groups and of tools do only if the group is named: nobody waits for their messages.
        """
        if self.group is None and (key.group.startswith(SYSTEM_GROUP_PREFIX) or key.group == TOOL_GROUP):
            return False
        return self.group in (None, key.group) and self.topic in (None, key.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """Offsets of the mirror that are to be at brokers again."""

    writer: str
    scope: RestoreScope
    #: Unix ms.
    moment: int | Former
    options: RestoreOptions
    is_dry_run: bool = False


class SetProblem(NamedTuple):
    """Why nothing is known, or nothing can be done, about the offsets of a broker set."""

    set_name: SetName
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What became, or would become, of each queue."""

    #: Undoes it; blank if no broker was sent anything.
    operation_id: str
    queues: Sequence[PlannedOffset]
    problems: Sequence[SetProblem] = ()

    @property
    def counts(self) -> Counter[str]:
        """How many queues have each status."""
        return Counter(each.status.value for each in self.queues)


class RestoreRefused(Exception):
    """A request is refused as a whole, nothing of it is done; the sentence says what is wrong and what to do."""


class TooManyRestored(RestoreRefused):
    """More queues than one operation may change."""

    def __init__(self, queues_max: int) -> None:
        self.queues_max = queues_max
        super().__init__(
            f"this covers more than {queues_max} queues of groups: name a group, a topic or a broker, and go on with "
            "the next"
        )


class NoSuchSet(RestoreRefused):
    """The manager knows no broker set of a scope."""

    def __init__(self, scope: RestoreScope) -> None:
        self.scope = scope
        what = "no broker set" if scope.broker_name is None else f"no broker set {scope.broker_name!a}"
        super().__init__(
            f"{what} of cluster {scope.cluster!a} is mirrored or followed here: name the cluster that brokers have "
            "as brokerClusterName; GET /v1/offsets/mirror lists those that are mirrored"
        )


class AnotherRuns(RestoreRefused):
    """Operations would write over each other."""

    def __init__(self) -> None:
        super().__init__("another restore, undo or import is under way at this manager: repeat it when that has ended")


class NoSuchOperation(RestoreRefused):
    """There is nothing to undo."""

    def __init__(self, operation_id: str, *, kept_at: str = "") -> None:
        """Take the address of the manager that did it, blank if that is this one or not known."""
        self.operation_id, self.kept_at = operation_id, kept_at
        where = (
            f"by its id the manager at {kept_at!a} did it, and has what undoes it"
            if kept_at
            else "each manager keeps the last ones that it did itself, which its GET /v1/offsets/operations lists"
        )
        super().__init__(f"operation {operation_id!a} is not kept here: {where}. {UNDONE_WHERE_KEPT}")
