"""What the newest results of A9 and A12 tell the autoscaler of a topic. Pure."""

from collections.abc import Iterable

from controller.observability.analytics_results import AnalysisResult
from controller.scaling.autoscaler.findings import AnalysisOutlook


class TopicOutlooks:
    """Looked up by topic; of topics that several clusters have nothing is told, since nobody knows which is meant."""

    def __init__(self, results: Iterable[AnalysisResult] = ()) -> None:
        by_name = {each.name: each.rows for each in results}
        left = [row.get("days_left") for row in by_name.get("capacity", ())]
        self._days_left = min((each for each in left if isinstance(each, int | float)), default=None)
        self._of_topics: dict[str, AnalysisOutlook | None] = {}
        for row in by_name.get("queue_scaling", ()):
            topic, verdict, queues = row.get("topic"), row.get("verdict"), row.get("queues_proposed")
            if row.get("kind") == "topic" and isinstance(topic, str) and isinstance(verdict, str):
                proposed = queues if isinstance(queues, int) else None
                outlook = AnalysisOutlook(verdict, proposed, self._days_left)
                self._of_topics[topic] = None if topic in self._of_topics else outlook

    def of_topic(self, topic: str) -> AnalysisOutlook:
        """Return what is known of a topic."""
        return self._of_topics.get(topic) or AnalysisOutlook(days_left=self._days_left)
