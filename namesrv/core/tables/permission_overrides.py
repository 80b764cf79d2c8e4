"""Permission overrides that an operator set (requests 205 and 327), until a changed registration carries the topic.

Java keeps the operator's choice because an unchanged registration touches no topic. Here a registration is always
compared topic by topic, so that the later parts of a split one count; so the override is stored.
"""

from collections.abc import Iterable, Mapping


class PermissionOverrides:
    """Broker name -> topic -> the permission that replaces the registered one; empty but for maintenance."""

    def __init__(self) -> None:
        self._overrides: dict[str, dict[str, int]] = {}

    def of(self, broker_name: str) -> Mapping[str, int]:
        """Return a set's overrides by topic."""
        return self._overrides.get(broker_name, {})

    def put(self, broker_name: str, overrides: Mapping[str, int]) -> None:
        """Store overrides of some topics."""
        if overrides:
            self._overrides.setdefault(broker_name, {}).update(overrides)

    def remove(self, broker_name: str, topics: Iterable[str]) -> None:
        """Lift the overrides of some topics."""
        mine = self._overrides.get(broker_name)
        if mine is None:
            return
        for topic in topics:
            mine.pop(topic, None)
        if not mine:
            del self._overrides[broker_name]
