"""A file that is read again and again."""

import os

import pytest

from serving.config.table_documents import DOCUMENT_CHARS_MAX
from serving.config.watched_file import FileUnreadable, WatchedFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rules.toml"


async def test_first_text_is_returned_at_once_and_only_once(path):
    path.write_text("one")
    file = WatchedFile(str(path))
    assert [await file.new_text() for _ in range(3)] == ["one", None, None]


async def test_changed_text_is_returned_once_it_was_the_same_twice(path):
    path.write_text("one")
    file = WatchedFile(str(path))
    await file.new_text()
    path.write_text("half of")
    assert await file.new_text() is None
    path.write_text("half of it, and the rest")
    assert [await file.new_text() for _ in range(3)] == [None, "half of it, and the rest", None]


async def test_file_that_comes_back_unchanged_is_returned_again(path):
    path.write_text("one")
    file = WatchedFile(str(path))
    await file.new_text()
    path.unlink()
    with pytest.raises(FileUnreadable, match="cannot be read: No such file"):
        await file.new_text()
    path.write_text("one")
    assert await file.new_text() == "one"


async def test_what_is_no_text_is_unreadable(path):
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FileUnreadable, match="no UTF-8 text"):
        await WatchedFile(str(path)).new_text()


async def test_pipe_that_nobody_writes_is_unreadable(path):
    os.mkfifo(path)
    with pytest.raises(FileUnreadable, match="it is no file"):
        await WatchedFile(str(path)).new_text()


async def test_of_a_very_long_file_only_its_beginning_is_read(path):
    path.write_text("x" * (5 * DOCUMENT_CHARS_MAX))
    text = await WatchedFile(str(path)).new_text()
    assert DOCUMENT_CHARS_MAX < len(text) < 5 * DOCUMENT_CHARS_MAX
