"""The former file counts where the newer one cannot be used."""

import pytest

from controller.offsets.entry_keys import EntryKey
from controller.offsets.files.backups import read_with_backup
from controller.offsets.files.broker_file import parse_broker_file
from controller.offsets.files.json_text import OffsetFileError

NEWER = b'{"offsetTable":{"t@g":{0:6}}}'
FORMER = b'{"offsetTable":{"t@g":{0:5}}}'
BROKEN = NEWER[:-1]


def read(newer, former):
    found = read_with_backup(newer, former, parse_broker_file)
    return found and (found.content.found.offsets[EntryKey("t", "g")][0], found.is_backup)


def test_newer_file_counts():
    assert read(NEWER, FORMER) == (6, False)
    assert read(NEWER, BROKEN) == (6, False)


@pytest.mark.parametrize("newer", [None, b"", BROKEN])
def test_former_file_counts_where_the_newer_one_is_missing_empty_or_broken(newer):
    assert read(newer, FORMER) == (5, True)


def test_error_of_the_newer_file_is_kept():
    assert "ends in the middle" in str(read_with_backup(BROKEN, FORMER, parse_broker_file).error)


@pytest.mark.parametrize("former", [None, b"", BROKEN])
def test_broken_file_without_a_readable_former_one_is_an_error(former):
    with pytest.raises(OffsetFileError):
        read(BROKEN, former)


def test_broken_former_file_alone_is_an_error():
    with pytest.raises(OffsetFileError):
        read(None, BROKEN)


@pytest.mark.parametrize("former", [None, b""])
def test_without_files_nothing_is_known_which_is_not_an_empty_table(former):
    assert read(None, former) is None
