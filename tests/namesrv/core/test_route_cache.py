"""Answers that are kept while they are true, and within a limit of bytes."""

import pytest
from builders import TOPIC

from namesrv.core.route_cache import RouteCache
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram


def ready(body):
    return PreparedResponse(body, Histogram(()))


def body_of(answers, topic, form):
    answer = answers.get(topic, form)
    return answer.body if answer else None


@pytest.fixture
def answers():
    return RouteCache(bytes_max=10)


def test_an_answer_is_found_in_the_form_it_was_made_in(answers):
    answers.keep(TOPIC, "standard", ready(b"{}"))
    answers.keep(TOPIC, "java", ready(b"{0}"))
    assert body_of(answers, TOPIC, "standard") == b"{}"
    assert body_of(answers, TOPIC, "java") == b"{0}"
    assert body_of(answers, TOPIC, "none") is None
    assert body_of(answers, "OtherTopic", "java") is None


# No longer true


def test_a_topic_that_changed_loses_its_answers_in_every_form_and_the_others_keep_theirs(answers):
    for topic in (TOPIC, "OtherTopic"):
        answers.keep(topic, "java", ready(b"1"))
        answers.keep(topic, "standard", ready(b"2"))
    answers.drop(["Unasked", TOPIC])
    assert [body_of(answers, TOPIC, form) for form in ("java", "standard")] == [None, None]
    assert [body_of(answers, "OtherTopic", form) for form in ("java", "standard")] == [b"1", b"2"]


def test_an_answer_still_held_elsewhere_is_marked_as_outdated(answers):
    dropped, cleared, gave_way = ready(b"1"), ready(b"2"), ready(b"12345678901")
    answers.keep(TOPIC, "java", dropped)
    answers.drop([TOPIC])
    answers.keep(TOPIC, "java", cleared)
    answers.clear()
    answers.keep(TOPIC, "java", gave_way)
    answers.keep("OtherTopic", "java", ready(b"1"))
    assert [each.is_valid for each in (dropped, cleared, gave_way)] == [False, False, False]


def test_a_dropped_topic_counts_once_and_only_if_it_had_an_answer(answers):
    answers.drop([TOPIC])
    answers.keep(TOPIC, "java", ready(b"1"))
    answers.keep(TOPIC, "standard", ready(b"2"))
    answers.drop([TOPIC, TOPIC, "Unasked"])
    answers.drop([TOPIC])
    assert answers.invalidated == 1


def test_a_change_of_the_configuration_drops_every_route(answers):
    answers.keep(TOPIC, "java", ready(b"1"))
    answers.keep(TOPIC, "standard", ready(b"2"))
    answers.keep("OtherTopic", "java", ready(b"3"))
    answers.clear()
    assert (
        body_of(answers, TOPIC, "java")
        is body_of(answers, TOPIC, "standard")
        is body_of(answers, "OtherTopic", "java")
        is None
    )
    assert answers.invalidated == 2


# The limit


def test_the_topics_go_whose_answers_were_made_first_when_the_limit_is_passed(answers):
    answers.keep("First", "java", ready(b"1234"))
    answers.keep("Second", "java", ready(b"1234"))
    answers.keep("First", "standard", ready(b"12"))
    assert body_of(answers, "First", "java") == b"1234"
    answers.keep("Third", "java", ready(b"1"))
    assert body_of(answers, "Second", "java") is None
    assert (body_of(answers, "First", "java"), body_of(answers, "First", "standard")) == (b"1234", b"12")
    assert body_of(answers, "Third", "java") == b"1"


def test_an_answer_that_is_made_anew_takes_the_place_of_the_former(answers):
    former = ready(b"1234567")
    answers.keep(TOPIC, "java", former)
    answers.keep(TOPIC, "java", ready(b"7654321"))
    answers.keep("OtherTopic", "java", ready(b"123"))
    assert not former.is_valid
    assert (body_of(answers, TOPIC, "java"), body_of(answers, "OtherTopic", "java")) == (b"7654321", b"123")


def test_as_many_go_as_a_large_answer_needs(answers):
    for topic in "abc":
        answers.keep(topic, "java", ready(b"123"))
    answers.keep("Large", "java", ready(b"12345678"))
    assert [body_of(answers, topic, "java") for topic in "abc"] == [None, None, None]
    assert body_of(answers, "Large", "java") == b"12345678"


def test_route_over_the_cache_limit_stays_until_the_next_one(answers):
    answers.keep(TOPIC, "java", ready(b"12345678901"))
    assert body_of(answers, TOPIC, "java") == b"12345678901"
    answers.keep("OtherTopic", "java", ready(b"1"))
    assert body_of(answers, TOPIC, "java") is None


def test_giving_way_to_the_limit_does_not_count_as_no_longer_true(answers):
    answers.keep(TOPIC, "java", ready(b"12345678901"))
    answers.keep("OtherTopic", "java", ready(b"1"))
    assert answers.invalidated == 0


@pytest.mark.parametrize("forget", [lambda answers: answers.drop(["Old"]), RouteCache.clear], ids=["drop", "clear"])
def test_answers_that_were_dropped_make_room(answers, forget):
    answers.keep("Old", "java", ready(b"1234567890"))
    forget(answers)
    answers.keep("A", "java", ready(b"12345"))
    answers.keep("B", "java", ready(b"12345"))
    assert (body_of(answers, "A", "java"), body_of(answers, "B", "java")) == (b"12345", b"12345")
