"""What no resize may exceed, whatever brokers answer: kinds of topics, waits, and the size of what is stored. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from controller.scaling.resize.operation import ResizeKind, SetResize
from controller.scaling.resize.request import TopicTraits
from controller.scaling.rules.path import all_queues, dropped_queues, new_queues
from remoting.protocol.topic_kinds import TopicKind, kind_of
from serving.shapes.scaling import ResizeWaits

#: What the offsets and marks of all broker sets may take of a document, in bytes of JSON. Finished phases, the problem,
#: waived groups and the request take the rest.
SETS_BYTES_MAX: Final = 140 * 1024
#: The shortest limit of a phase that is to be undone or blocked after it: a round has to be in it.
LIMIT_MS_MIN: Final = 1_000

#: Bytes of JSON beside the broker name: one queue with its offset, one delay level, one broker set with its master.
_QUEUE_BYTES: Final = 30
_LEVEL_BYTES: Final = 28
_SET_BYTES: Final = 420
#: Delay levels of a broker.
_LEVELS: Final = 18
#: Where the name of a broker set stands beside its queues and levels: numbers, master, order configuration.
_NAMES: Final = 3
#: One queue that a group may consume again, beside the names of the group and of the broker set.
_RELEASED_BYTES: Final = 14

#: Waits that decide whether messages get lost or stay behind, with what a shorter one than the default risks.
_SAFETY: Final[Mapping[str, str]] = {
    "producers_ms": "producers that poll their routes more slowly may send to queues that are about to be closed",
    "stable_ms": "a producer that pauses for longer may send to queues that are about to be closed",
    "confirm_ms": "messages that brokers still file are noticed later, and dropped queues are opened again",
    "watch_ms": "messages that come after the end stay in queues that nobody reads",
    "pop_ms": "messages that pop consumers have not acknowledged may be lost to them",
    "process_ms": "messages that clients have pulled and not processed may be lost to them",
    "transaction_ms": "transactional messages that are decided later stay in queues that nobody reads",
}
_LIMITS: Final = ("verify_ms", "seed_ms", "quiesce_ms", "drain_ms", "pause_ms")


def topic_problems(topic: str, traits: TopicTraits) -> Iterator[str]:
    """Yield why the number of queues of a topic is not the operator's."""
    match kind_of(topic, {*traits.clusters.values(), *traits.counts}):
        case TopicKind.SYSTEM:
            yield f"{topic} is a system topic: brokers rely on its number of queues"
        case TopicKind.RETRY:
            yield f"{topic} is a retry topic: its queues follow retryQueueNums of its group; change that"
        case TopicKind.DLQ:
            yield f"{topic} holds dead letters, which brokers write into one queue: more of them do not help"


def wait_problems(waits: ResizeWaits) -> Iterator[str]:
    """Yield which limits of phases are too short for any broker to answer."""
    for name in _LIMITS:
        if (wait_ms := getattr(waits, name)) < LIMIT_MS_MIN:
            yield f"{_in_json(name)} of {wait_ms} is shorter than {LIMIT_MS_MIN}: no broker could answer in time"


def wait_warnings(waits: ResizeWaits) -> Iterator[str]:
    """Yield which waits are shorter than is safe, and what that risks."""
    default = ResizeWaits()
    for name, risk in _SAFETY.items():
        wait_ms, safe_ms = getattr(waits, name), getattr(default, name)
        if wait_ms < safe_ms:
            yield f"{_in_json(name)} of {wait_ms} is shorter than the default of {safe_ms}: {risk}"


def size_problems(kind: ResizeKind, sets: Sequence[SetResize], orderly: Collection[str]) -> Iterator[str]:
    """Yield that what a resize has to store is too much for one document; `orderly` are the groups that it locks."""
    needed = sum(_set_bytes(kind, each, orderly) for each in sets)
    if needed <= SETS_BYTES_MAX:
        return
    queues = sum(_stored_queues(kind, each) for each in sets)
    yield (
        f"{len(sets)} broker sets with {queues} queues to follow need {needed} bytes of state, and one resize can "
        f"store {SETS_BYTES_MAX}: change fewer queues at a time, in several resizes"
    )


def _set_bytes(kind: ResizeKind, resize: SetResize, orderly: Collection[str]) -> int:
    name = len(resize.broker_name)
    followed = _stored_queues(kind, resize) * (name + _QUEUE_BYTES)
    levels = _LEVELS * (name + _LEVEL_BYTES)
    locked = len(new_queues(resize)) if kind is ResizeKind.GATED else 0
    released = locked * sum(len(group) + name + _RELEASED_BYTES for group in orderly)
    return _SET_BYTES + _NAMES * name + len(resize.cluster) + followed + levels + released


def _stored_queues(kind: ResizeKind, resize: SetResize) -> int:
    """Return of how many queues an offset is stored at most, now or on the way back."""
    if kind in {ResizeKind.ORDERED, ResizeKind.GATED}:
        return len(new_queues(resize)) + len(all_queues(resize))
    return len(new_queues(resize)) + len(dropped_queues(resize))


def _in_json(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)
