"""Resizes with a valid default of every value; a test writes only what it is about."""

from controller.scaling.resize.operation import QueueCounts, ResizeOperation, SetResize
from serving.shapes.scaling import ResizeKind, ResizePhase

CREATED_UNIX_MS = 1_700_000_000_000


def a_resize(**values):
    """Return a resize of TopicTest from 8 to 4 queues that has just been created."""
    defaults = {
        "id": "resize-1",
        "topic": "TopicTest",
        "kind": ResizeKind.SHRINK,
        "sets": (SetResize(broker_name="broker-a", cluster="DefaultCluster", before=QueueCounts(8, 8), target=4),),
        "phase": ResizePhase.PLANNED,
        "phase_since_unix_ms": CREATED_UNIX_MS,
        "created_unix_ms": CREATED_UNIX_MS,
    }
    return ResizeOperation(**(defaults | values))


def went(resize, *phases, every_ms=60_000, evidence=()):
    """Return a resize after these phases, so many ms after each other."""
    for phase in phases:
        resize = resize.entered(phase, resize.phase_since_unix_ms + every_ms, evidence)
    return resize
