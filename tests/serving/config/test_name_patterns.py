"""Names for several at once."""

import pytest

from serving.config.name_patterns import NamePattern, is_pattern, literal_length


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("broker-*", "broker-a", True),
        ("broker-*", "broker-", True),
        ("broker-?", "broker-12", False),
        ("*", "", True),
        ("a.c", "abc", False),
        ("broker", "broker-a", False),
    ],
)
def test_star_stands_for_any_characters_and_question_mark_for_one(pattern, name, is_match):
    assert NamePattern(pattern).matches(name) is is_match


def test_pattern_with_many_stars_is_matched_at_once():
    # A matcher that goes back to an earlier `*` takes minutes for this.
    assert not NamePattern("*-" * 12 + "a").matches("-" * 250)


def test_only_text_with_a_star_or_a_question_mark_is_a_pattern():
    assert [is_pattern(text) for text in ("broker-a", "broker-*", "broker-?")] == [False, True, True]
    assert literal_length("b?oker-*") == 6
