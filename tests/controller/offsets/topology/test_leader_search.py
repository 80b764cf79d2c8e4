"""Which controller is requested next, and how long the pauses are; and which texts name controllers."""

import pytest

from controller.offsets.topology.leader_search import PAUSES_MS, LeaderSearch, controller_urls


def test_one_that_answers_is_requested_again():
    search = LeaderSearch(["a", "b", "c"])
    search.failed()
    search.answered()
    assert (search.url, search.is_searching) == ("b", False)


def test_all_others_are_requested_at_once_and_then_comes_a_pause_that_grows():
    search = LeaderSearch(["a", "b", "c"])
    seen = [(search.url, search.failed()) for _ in range(9)]
    first, second, third = PAUSES_MS[:3]
    assert seen == [
        ("a", 0), ("b", 0), ("c", first), ("a", 0), ("b", 0), ("c", second), ("a", 0), ("b", 0), ("c", third)
    ]  # fmt: skip


def test_pause_has_an_upper_limit_and_begins_anew_after_an_answer():
    search = LeaderSearch(["a"])
    assert [search.failed() for _ in range(len(PAUSES_MS) + 2)] == [*PAUSES_MS, PAUSES_MS[-1], PAUSES_MS[-1]]
    search.answered()
    assert search.failed() == PAUSES_MS[0]


def test_urls_are_listed_with_semicolons_and_each_once():
    text = " http://10.0.0.1:9881/; https://c2.example:9881 ;http://[::1]:9881;http://10.0.0.1:9881;"
    assert controller_urls(text) == ("http://10.0.0.1:9881", "https://c2.example:9881", "http://[::1]:9881")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it must name at least one controller"),
        (" ; ", "it must name at least one controller"),
        ("10.0.0.1:9881", "10.0.0.1:9881 is no URL of a host with http or https"),
        ("ftp://a:1", "ftp://a:1 is no URL of a host with http or https"),
        ("http://", "no URL of a host"),
        ("http://a:99999", "http://a:99999 is no URL: Port out of range"),
        ("http://[::1", "is no URL: Invalid IPv6 URL"),
        ("http://a:9881/v1", "more than a scheme, a host and a port"),
        ("http://a:9881?x", "more than a scheme, a host and a port"),
        ("http://a b:9881", "more than a scheme, a host and a port"),
        ("http://a:1;http://b:x", "http://b:x is no URL"),
    ],
)
def test_text_that_names_no_controllers_is_refused(text, why):
    with pytest.raises(ValueError, match=r"as http://10\.0\.0\.1:9881") as raised:
        controller_urls(text)
    assert why in str(raised.value)


def test_password_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(ValueError, match=r"a URL of host\.example has a user or a password") as raised:
        controller_urls("http://me:secret@host.example:9881")
    assert "secret" not in str(raised.value)
