"""Bodies of answers that are kept while they are true, and within a limit of bytes."""

import pytest
from builders import TOPIC

from namesrv.route_answers import RouteAnswers


@pytest.fixture
def answers():
    return RouteAnswers(bytes_max=10)


def test_an_answer_that_was_never_made_is_not_found(answers):
    assert answers.get(TOPIC, "standard") is None


def test_an_answer_is_found_in_the_form_it_was_made_in(answers):
    answers.keep(TOPIC, "standard", b"{}")
    answers.keep(TOPIC, "java", b"{0}")
    assert answers.get(TOPIC, "standard") == b"{}"
    assert answers.get(TOPIC, "java") == b"{0}"
    assert answers.get(TOPIC, "none") is None
    assert answers.get("OtherTopic", "java") is None


def test_hits_and_misses_are_counted(answers):
    answers.get(TOPIC, "java")
    answers.keep(TOPIC, "java", b"")
    answers.get(TOPIC, "java")
    answers.get(TOPIC, "java")
    answers.get(TOPIC, "standard")
    assert (answers.hits, answers.misses, answers.invalidated) == (2, 2, 0)


# No longer true


def test_a_topic_that_changed_loses_its_answers_in_every_form_and_the_others_keep_theirs(answers):
    for topic in (TOPIC, "OtherTopic"):
        answers.keep(topic, "java", b"1")
        answers.keep(topic, "standard", b"2")
    answers.drop(["Unasked", TOPIC])
    assert [answers.get(TOPIC, form) for form in ("java", "standard")] == [None, None]
    assert [answers.get("OtherTopic", form) for form in ("java", "standard")] == [b"1", b"2"]


def test_a_dropped_topic_counts_once_and_only_if_it_had_an_answer(answers):
    answers.drop([TOPIC])
    answers.keep(TOPIC, "java", b"1")
    answers.keep(TOPIC, "standard", b"2")
    answers.drop([TOPIC, TOPIC, "Unasked"])
    answers.drop([TOPIC])
    assert answers.invalidated == 1


def test_a_change_of_the_configuration_drops_every_route(answers):
    answers.keep(TOPIC, "java", b"1")
    answers.keep(TOPIC, "standard", b"2")
    answers.keep("OtherTopic", "java", b"3")
    answers.clear()
    assert answers.get(TOPIC, "java") is answers.get(TOPIC, "standard") is answers.get("OtherTopic", "java") is None
    assert answers.invalidated == 2


def test_the_list_of_clusters_is_not_a_route_and_outlives_them(answers):
    assert answers.cluster_info is None
    answers.cluster_info = b"{}"
    answers.drop([TOPIC])
    answers.clear()
    assert answers.cluster_info == b"{}"


# The limit


def test_the_topics_that_were_asked_for_first_go_when_the_limit_is_passed(answers):
    answers.keep("First", "java", b"1234")
    answers.keep("Second", "java", b"1234")
    answers.keep("First", "standard", b"12")
    assert answers.get("First", "java") == b"1234"
    answers.keep("Third", "java", b"1")
    assert (answers.get("First", "java"), answers.get("First", "standard")) == (None, None)
    assert (answers.get("Second", "java"), answers.get("Third", "java")) == (b"1234", b"1")


def test_as_many_go_as_a_large_answer_needs(answers):
    for topic in "abc":
        answers.keep(topic, "java", b"123")
    answers.keep("Large", "java", b"12345678")
    assert [answers.get(topic, "java") for topic in "abc"] == [None, None, None]
    assert answers.get("Large", "java") == b"12345678"


def test_an_answer_over_the_limit_is_not_kept(answers):
    answers.keep(TOPIC, "java", b"12345678901")
    assert answers.get(TOPIC, "java") is None


def test_giving_way_to_the_limit_does_not_count_as_no_longer_true(answers):
    answers.keep(TOPIC, "java", b"12345678901")
    assert answers.invalidated == 0


@pytest.mark.parametrize("forget", [lambda answers: answers.drop(["Old"]), RouteAnswers.clear], ids=["drop", "clear"])
def test_answers_that_were_dropped_make_room(answers, forget):
    answers.keep("Old", "java", b"1234567890")
    forget(answers)
    answers.keep("A", "java", b"12345")
    answers.keep("B", "java", b"12345")
    assert (answers.get("A", "java"), answers.get("B", "java")) == (b"12345", b"12345")
