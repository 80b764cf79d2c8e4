"""What a plan rests on beyond numbers of queues: `orderTopicConf` of each NameServer, and which broker sets it covers.

Pure. Broker sets with static roles leave all routes with their last broker: only what is stored elsewhere has them.
"""

from collections.abc import Iterator

from controller.scaling.resize.observation import NameServerView, ResizeObservation
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.resize.request import TopicTraits


def order_conf_problems(topic: str, observation: ResizeObservation) -> Iterator[str]:
    """Yield that NameServers hold different entries: each producer uses that of the one it queries."""
    answered = _answered(observation)
    if len({each.order_conf for each in answered}) > 1:
        yield (
            f"NameServers have different orderTopicConf of {topic}: {_held(answered)}. Make them equal first "
            "(mqadmin updateOrderConf)"
        )


def changed_order_conf(operation: ResizeOperation, observation: ResizeObservation) -> Iterator[str]:
    """Yield which NameServers have another entry than when the resize was requested."""
    if others := [each for each in _answered(observation) if each.order_conf != operation.order_conf]:
        yield (
            f"orderTopicConf of {operation.topic} was {_text(operation.order_conf)} when the resize was requested, and "
            f"now: {_held(others)}. Request it again"
        )


def _answered(observation: ResizeObservation) -> list[NameServerView]:
    return [each for each in observation.name_servers if each.counts is not None]


def _held(views: list[NameServerView]) -> str:
    return ", ".join(f"{each.address} has {_text(each.order_conf)}" for each in views)


def _text(order_conf: str | None) -> str:
    return "none" if order_conf is None else order_conf


def uncovered_stored_sets(topic: str, traits: TopicTraits) -> Iterator[str]:
    """Yield broker sets that are away, and those of which something is stored that are in no route now."""
    for name in traits.away_sets:
        yield f"{name} is away: if it has {topic}, it comes back with its former numbers (rmq broker list)"
    conf = {part.partition(":")[0] for part in (traits.order_conf or "").split(";") if part}
    covered = traits.counts.keys() | set(traits.away_sets)
    for name in sorted(conf - covered):
        yield f"orderTopicConf names {name}, which is in no route of the topic: it is not resized"
    for name in sorted(set(traits.former_sets) - covered - conf):
        yield f"{name} had the topic at an earlier resize, and is in no route of it now: it is not resized"


def uncovered_sets(operation: ResizeOperation, observation: ResizeObservation) -> tuple[str, ...]:
    """Return sentences about broker sets that routes show with the topic, and that the resize does not change."""
    shown = {name: counts for each in observation.name_servers for name, counts in (each.counts or {}).items()}
    covered = {each.broker_name for each in operation.sets}
    return tuple(
        f"{name} has {operation.topic} too ({counts}), and is not part of this resize: it keeps these numbers"
        for name, counts in sorted(shown.items())
        if name not in covered
    )
