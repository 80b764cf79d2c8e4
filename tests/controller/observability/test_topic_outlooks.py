"""What results of A9 and A12 tell the autoscaler of a topic."""

from datetime import UTC, datetime

from controller.observability.analytics_results import AnalysisResult, TopicOutlooks
from controller.scaling.autoscaler.findings import AnalysisOutlook


def a_result(name, *rows):
    return AnalysisResult(name, datetime(2026, 11, 21, tzinfo=UTC), 1.0, 1, list(rows))


def a_proposal(topic, queues, verdict="grow", kind="topic"):
    return {"kind": kind, "topic": topic, "verdict": verdict, "queues_proposed": queues}


def test_topic_has_its_proposal_and_the_fewest_days_of_any_resource():
    outlooks = TopicOutlooks(
        [
            a_result("queue_scaling", a_proposal("Orders", 16), a_proposal("Orders", 8, kind="proposal")),
            a_result("capacity", {"days_left": 90.5}, {"days_left": 12}, {"days_left": None}),
        ]
    )
    assert outlooks.of_topic("Orders") == AnalysisOutlook("grow", 16, 12)
    assert outlooks.of_topic("Payments") == AnalysisOutlook(None, None, 12)


def test_topic_of_two_clusters_is_told_nothing():
    outlooks = TopicOutlooks([a_result("queue_scaling", *(a_proposal("Orders", each) for each in (16, 8, 4)))])
    assert outlooks.of_topic("Orders") == AnalysisOutlook()


def test_without_results_nothing_is_known():
    assert TopicOutlooks().of_topic("Orders") == AnalysisOutlook()
