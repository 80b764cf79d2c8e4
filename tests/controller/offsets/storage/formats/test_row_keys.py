"""Keys of rows: any names can be read back, and no two rows or groups share a key or a prefix."""

import pytest
from hypothesis import given
from stored_offset_builders import row_name, row_names

from controller.offsets.storage.formats.row_keys import ForeignKey, path_of, row_of
from store.etcd.keys import Keys


@given(row_names)
def test_names_are_read_back_from_their_key(of):
    assert row_of(path_of(of)) == of


@given(row_names)
def test_key_has_five_parts_of_plain_characters_whatever_the_names_are(of):
    path = path_of(of)
    assert path.count("/") == 4
    assert path.isascii()
    assert not any(each.isspace() for each in path)


def test_slash_in_a_name_does_not_make_it_another_row():
    assert path_of(row_name("a/b", "c")) != path_of(row_name("a", "b/c"))


def test_prefix_of_one_group_of_managers_matches_no_other():
    prefixes = [Keys(group, "rmq-offsets").prefix for group in ("a", "ab", "a/b", "a%2Fb", "")]
    for one in prefixes:
        assert [each for each in prefixes if each.startswith(one)] == [one]
    assert not Keys("a", "rmq-offsets").prefix.startswith(Keys("a").prefix)


@pytest.mark.parametrize("path", ["", "a/b/c/d", "a/b/c/d/e/f", "a/b/c/d/%FF", "a/b/c/d/%2f", "a/b/c/d/é", "a/b/c/d/ "])
def test_other_keys_are_not_ours(path):
    with pytest.raises(ForeignKey):
        row_of(path)
