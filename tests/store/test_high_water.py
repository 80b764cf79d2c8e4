"""The number of the last change outlives a write that was cut short, whatever numbers are written."""

import zlib

import pytest

from store.high_water import DamagedMark, HighWater


def reread(path):
    mark = HighWater(path)
    mark.close()
    return mark.number


def written(path, *numbers):
    """Write these numbers one after the other; returns the content before the last one, and after it."""
    mark = HighWater(path)
    for number in numbers[:-1]:
        mark.raise_to(number)
    before = path.read_bytes()
    mark.raise_to(numbers[-1])
    mark.close()
    return before, path.read_bytes()


@pytest.mark.parametrize("numbers", [(1, 2, 3), (2, 4, 6, 8), (1, 3, 5), (500, 1000)])
def test_interrupted_write_leaves_one_of_the_last_two_numbers(tmp_path, numbers):
    path = tmp_path / "mark"
    before, after = written(path, *numbers)
    changed = [at for at in range(len(after)) if at >= len(before) or before[at] != after[at]]
    assert changed
    for cut in range(changed[0], changed[-1] + 1):
        path.write_bytes(after[:cut] + b"\xff" + after[cut + 1 :])
        assert reread(path) in (numbers[-2], numbers[-1])


@pytest.mark.parametrize("numbers", [(1, 2, 3), (2, 4, 6, 8)])
def test_lost_disk_block_loses_only_one_number(tmp_path, numbers):
    path = tmp_path / "mark"
    before, after = written(path, *numbers)
    changed = next(at for at in range(len(after)) if at >= len(before) or before[at] != after[at])
    block = changed // 4096 * 4096
    path.write_bytes(after[:block] + bytes(4096) + after[block + 4096 :])
    assert reread(path) == numbers[-2]


def test_interrupted_slot_is_written_next(tmp_path):
    path = tmp_path / "mark"
    before, after = written(path, 5, 6)
    torn = bytearray(after)
    torn[next(at for at in range(len(after)) if at >= len(before) or before[at] != after[at])] ^= 0xFF
    path.write_bytes(torn)
    assert reread(path) == 5
    written(path, 8)
    assert reread(path) == 8


@pytest.mark.parametrize("numbers", [(8, 7), (6, 7), (0, 0)])
def test_short_file_of_an_earlier_release_is_read_and_continued(tmp_path, numbers):
    path = tmp_path / "mark"
    slots = [b"%020d %08x  \n" % (number, zlib.crc32(b"%020d" % number)) for number in numbers]
    path.write_bytes(b"".join(slots))
    assert reread(path) == max(numbers)
    for number in (10, 12, 14):
        written(path, number)
        assert reread(path) == number


def test_file_without_a_number_is_damaged(tmp_path):
    (tmp_path / "mark").write_bytes(b"\0" * 9000)
    with pytest.raises(DamagedMark):
        HighWater(tmp_path / "mark")
