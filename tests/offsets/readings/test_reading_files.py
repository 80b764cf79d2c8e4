"""Readings on the disk: what is kept, what a damaged file harms, and a disk that is full."""

import errno
import os
import resource

import pytest
from read_brokers import offsets_body
from reading_builders import NAME, UNIX_MS, a_head, a_mark

from offsets.readings import files as module
from offsets.readings.files import HOURS_MAX, ReadingFiles, ReadingFileSkipped, ReadingsNotKept
from offsets.readings.table import Trail, offsets_text
from offsets.values import GroupKind, GroupTopic, SetName

KEY = GroupTopic("g", "orders")
MINUTE_MS = 60_000
#: Files that are kept as they are.
MINUTES = 60


class Disk:
    """Files in a folder, and who fills them with a reading each 5 s."""

    def __init__(self, folder, *, bytes_max=1 << 30):
        self.folder, self.bytes_max, self.events = folder, bytes_max, []
        self.files = ReadingFiles(folder, bytes_max, self.events.append)
        self.trails, self.number = {}, 0

    async def take(self, count=1, *, name=NAME, step_ms=5000, flush=True, **head):
        """Keep readings of which the n-th shows the offset n."""
        for _ in range(count):
            trail = self.trails.setdefault(name, Trail())
            text = offsets_text(offsets_body({"orders@g": {0: self.number}, "still@g": {0: 1}}), "offsetTable")
            _, stored = trail.take(text, step_ms * self.number)
            values = {"ended_unix_ms": UNIX_MS + step_ms * self.number, "first_end": 100 * self.number} | head
            self.files.append(name, a_head(**values), stored)
            self.number += 1
        if flush:
            await self.files.flush()

    async def again(self):
        """Return the files as another process finds them, with the heads that they have."""
        other = Disk(self.folder, bytes_max=self.bytes_max)
        return other, await other.files.load()

    def offset(self, number, *, name=NAME, step_ms=5000):
        """Return the offset in the reading at the moment of the n-th."""
        found = self.files.read(name, UNIX_MS + step_ms * number, 0)
        return None if found is None else found.offsets[KEY][0]

    def paths(self, name=NAME):
        return sorted((self.folder / "@".join(name)).iterdir())


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path)


async def test_each_reading_of_the_last_hour_is_there_for_the_next_process(disk):
    marks = (a_mark(0), a_mark(100))
    await disk.take(1, fingerprints=marks, kinds={"g": GroupKind.PULL})
    await disk.take(39)
    other, heads = await disk.again()

    assert [other.offset(number) for number in (0, 1, 11, 12, 30, 39, 99)] == [0, 1, 11, 12, 30, 39, 39]
    assert other.files.read(NAME, UNIX_MS - 1, 0) is None
    assert len(heads[NAME]) == 40
    assert heads[NAME][0].fingerprints == marks
    found = other.files.read(NAME, UNIX_MS + 5000 * 7, 1000)
    assert (found.began_ms, found.ended_ms, found.kinds) == (1000, 1010, {"g": GroupKind.PULL})
    assert (found.master_epoch, found.first_end, found.epochs[1].start_offset) == (5, 700, 90)
    assert found.offsets[GroupTopic("g", "still")] == {0: 1}
    assert other.files.moments(NAME) == [UNIX_MS + 5000 * number for number in (0, 12, 24, 36, 39)]


async def test_names_of_sets_can_be_anything(tmp_path):
    name, disk = SetName("../a b", "x@y/.."), Disk(tmp_path / "readings")
    await disk.take(name=name)
    other, _ = await disk.again()

    assert other.files.moments(name)
    assert [path.name for path in tmp_path.iterdir()] == ["readings"]


async def test_older_minutes_become_one_for_each_hour_with_its_first_reading(disk, monkeypatch):
    monkeypatch.setattr(module, "READINGS_MAX", 3 * (MINUTES - 1))
    for _ in range(190):
        await disk.take(3, step_ms=MINUTE_MS // 3, flush=False)
    await disk.files.flush()

    step = MINUTE_MS // 3
    hours = list(disk.files.moments(NAME)[: -MINUTES - 1])
    assert len({moment // 3_600_000 for moment in hours}) == len(hours) == 3
    assert len(disk.paths()) == len(hours) + MINUTES
    # The first reading of its hour is what an hour has.
    numbers = [(moment - UNIX_MS) // step for moment in hours]
    assert [disk.offset(number + 2, step_ms=step) for number in numbers] == numbers
    assert disk.files.size_bytes == sum(path.stat().st_size for path in disk.paths())
    other, _ = await disk.again()
    assert other.files.moments(NAME) == disk.files.moments(NAME)


async def test_readings_are_kept_for_14_days(disk, monkeypatch):
    monkeypatch.setattr(module, "READINGS_MAX", MINUTES)
    count = MINUTES + HOURS_MAX + 20
    await disk.take(count, step_ms=3_600_000)
    assert len(disk.paths()) == MINUTES + HOURS_MAX
    assert disk.offset(19, step_ms=3_600_000) is None


async def test_the_set_with_the_most_files_gives_way_where_there_is_no_more_room(tmp_path):
    disk, small = Disk(tmp_path, bytes_max=14_000), SetName("C", "small")
    await disk.take(1, name=small)
    await disk.take(60, step_ms=MINUTE_MS)

    assert disk.files.size_bytes <= disk.bytes_max
    assert len(disk.paths(small)) == 1
    assert len(disk.paths()) > 5
    # The newest are there.
    assert disk.offset(60, step_ms=MINUTE_MS) == 60


async def test_the_newest_file_of_each_set_stays_whatever_room_there_is(tmp_path):
    disk = Disk(tmp_path, bytes_max=1)
    for name in ("a", "b"):
        await disk.take(13, name=SetName("C", name))
    assert [len(disk.paths(SetName("C", name))) for name in ("a", "b")] == [1, 1]
    assert disk.offset(25, name=SetName("C", "b")) == 25


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"another release" + content,
        lambda content: content[:100],
        lambda content: content[: len(content) // 2] + b"?" + content[len(content) // 2 + 1 :],
        lambda content: content[:40] + bytes(20) + content[60:],
        lambda content: content.replace(b"10.0.0.1", b"10.0.0.9"),
        # A disk that loses what was written last.
        lambda content: content[: len(content) // 2] + bytes(len(content) // 2),
    ],
)
async def test_a_damaged_file_harms_its_own_minute_alone(disk, damage):
    await disk.take(36)
    path = disk.paths()[1]
    path.write_bytes(damage(path.read_bytes()))
    other, _ = await disk.again()

    assert [other.offset(number) for number in (11, 24, 35)] == [11, 24, 35]
    # In between there is what was before it, or what its first readings show.
    assert other.offset(23) in range(11, 23)
    assert all(isinstance(event, ReadingFileSkipped) and event.path == str(path) for event in other.events)
    assert path.exists()


async def test_the_end_of_a_minute_that_was_cut_is_not_there(disk):
    await disk.take(10)
    path = disk.paths()[0]
    path.write_bytes(path.read_bytes()[:-10])
    other, _ = await disk.again()
    assert (other.offset(9), other.events) == (8, [])


async def test_a_full_disk_costs_the_rest_of_the_minute_and_is_told_once(disk, monkeypatch):
    await disk.take(3)

    def full(path, content, *, is_new):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(module, "_append", full)
        await disk.take(2)
        await disk.take(1)
    assert [type(event) for event in disk.events] == [ReadingsNotKept]
    assert "No space left" in disk.events[0].problem
    # Not behind what is missing.
    await disk.take(6)
    assert disk.offset(11) == 2
    await disk.take(2)
    assert disk.offset(13) == 13


async def test_a_disk_that_takes_a_part_leaves_what_was_there(tmp_path):
    path, size = tmp_path / "file", 4 << 20
    path.write_bytes(bytes(size))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, most))
    try:
        with pytest.raises(OSError, match="took a part"):
            module._append(path, bytes(100), is_new=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert path.stat().st_size == size
    module._append(path, b"anew", is_new=True)
    assert path.read_bytes() == b"anew"


async def test_a_frame_is_never_read_behind_one_that_is_missing(disk):
    await disk.take(3)
    await disk.take(3, flush=False)
    del disk.files._jobs[1]
    await disk.files.flush()
    other, _ = await disk.again()
    assert other.offset(5) == 3


async def test_a_disk_that_is_too_slow_loses_the_oldest(disk, monkeypatch):
    monkeypatch.setattr(module, "WAITING_MAX", 4)
    await disk.take(8)
    assert "too slow" in disk.events[0].problem
    assert disk.offset(7) is None


async def test_a_reading_that_waits_to_be_written_is_no_damage(disk):
    await disk.take(13)
    await disk.take(12, flush=False)
    assert (disk.offset(24), disk.events) == (12, [])


async def test_nothing_is_known_of_other_sets(disk):
    other = SetName("C", "other")
    assert disk.files.moments(other) == []
    assert disk.files.read(other, UNIX_MS, 0) is None
