"""What an entry has to be, whoever sends it: names, queue ids, offsets and how many there may be. Pure."""

from dataclasses import dataclass
from typing import Final

from controller.offsets.commits.refusals import TooManyEntries
from controller.offsets.values import NAME_CHARACTERS_MAX, OFFSET_MAX, QUEUES_MAX, GroupTopic
from remoting.protocol.plain_text import is_plain

#: Entries of one commit, seed or reset. 10,000 take some 30 ms, in which nothing else is decided.
ENTRIES_MAX: Final = 10_000
#: Offsets that one clone or deletion may change.
ROWS_CHANGED_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetLimits:
    """How much the table may hold."""

    #: Offsets of all groups. A million take some 250 MB.
    rows_max: int = 1_000_000


def check_entry_count(entries: int) -> None:
    """Raise TooManyEntries if one decision would take too long."""
    if entries > ENTRIES_MAX:
        raise TooManyEntries(entries, ENTRIES_MAX)


def problem_of_names(of: GroupTopic) -> str:
    """Return what is wrong with the names of a row, blank if nothing is. The namespace may be blank."""
    names = of._asdict()
    for field, name in names.items():
        word = field.replace("_", " ")
        if not name.strip():
            if field != "namespace" or name:
                return f"the {word} is blank: name it"
        elif problem := problem_of_name(name):
            return f"the {word} {problem}"
    return ""


def problem_of_name(name: str) -> str:
    """Return what is wrong with a name that is not blank."""
    if len(name) > NAME_CHARACTERS_MAX:
        return f"has {len(name)} characters, at most {NAME_CHARACTERS_MAX} are allowed: {name[:40]!r}..."
    if not is_plain(name):
        # Lone surrogates would fail in every store, control characters in every log line.
        return f"contains characters that cannot be shown: {name!r}"
    return ""


def problem_of_writer(writer: str) -> str:
    """Return what is wrong with the writer of an offset, blank if nothing is."""
    if not writer.strip():
        return "the writer is blank: name the client, the operator or the broker"
    problem = problem_of_name(writer)
    return f"the writer {problem}" if problem else ""


def problem_of_queue(queue_id: int) -> str:
    """Return what is wrong with a queue id, blank if nothing is."""
    if 0 <= queue_id < QUEUES_MAX:
        return ""
    return f"queue id {queue_id} is not in 0 to {QUEUES_MAX - 1}"


def problem_of_offset(offset: int) -> str:
    """Return what is wrong with an offset, blank if nothing is; -1 is Java's way to say that there is none."""
    if 0 <= offset <= OFFSET_MAX:
        return ""
    if offset < 0:
        return f"offset {offset} is negative: an offset that is not known is left out, never stored"
    return f"offset {offset} is above {OFFSET_MAX}"
