"""Names of topics in order, for lists in pages."""

from route_states import remove_topics

from namesrv.core.tables.topic_table import TopicTable
from namesrv.http.views import TopicNames
from remoting.protocol.shapes.route import QueueData


async def test_topic_names_are_sorted_again_only_after_a_topic_was_added_or_removed():
    topics = TopicTable()
    names = TopicNames(topics)
    assert list(await names.names()) == []
    topics.put("b", {"y": QueueData(), "x": QueueData()})
    first = await names.names()
    assert list(first) == ["x", "y"]
    topics.put("c", {"y": QueueData()})
    assert await names.names() is first
    remove_topics(topics, "b", ["x"])
    assert list(await names.names()) == ["y"]
