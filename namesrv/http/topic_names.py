"""The names of all topics in order, for lists in pages."""

import asyncio
from collections.abc import Sequence

from namesrv.core.tables.topic_table import TopicTable
from serving.http.pages import sorted_in_turns


class TopicNames:
    """The sorted names of a topic table, sorted again only when a topic came or went."""

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics
        self._names: list[str] = []
        self._version = -1
        self._turn = asyncio.Lock()

    async def names(self) -> Sequence[str]:
        """Return the names, sorted; not to be changed."""
        async with self._turn:
            if self._version != self._topics.names_version:
                version = self._topics.names_version
                self._names = await sorted_in_turns(self._topics.topics())
                self._version = version
            return self._names
