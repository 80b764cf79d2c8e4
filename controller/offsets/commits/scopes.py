"""Which offsets an operation covers. Pure."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from controller.offsets.values import GroupTopic


class OffsetScope(NamedTuple):
    """All offsets of a namespace in a cluster, unless narrowed: None is any."""

    cluster: str
    namespace: str
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None

    def covers(self, of: GroupTopic) -> bool:
        """Return whether the offsets of a row belong to it."""
        return (
            (self.group is None or self.group == of.group)
            and (self.topic is None or self.topic == of.topic)
            and (self.broker_name is None or self.broker_name == of.broker_name)
            and self.cluster == of.cluster
            and self.namespace == of.namespace
        )


def scopes_of(of: GroupTopic) -> Iterator[OffsetScope]:
    """Return each of the eight scopes that covers a row."""
    for group, topic, broker_name in product((of.group, None), (of.topic, None), (of.broker_name, None)):
        yield OffsetScope(of.cluster, of.namespace, group, topic, broker_name)
