"""Files that rows land in: whole lines only, sealed by a rename, and what a dead process left is not lost."""

import fcntl
import gzip
import random
import shutil
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from history.landing import SEAL_AFTER_US, Landing, RowsLost, lines_of, sealed_files

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 11, 21, 20, 30, tzinfo=UTC)
AT_US = int(AT.timestamp()) * 1_000_000
HOUR_US = 3_600_000_000


@pytest.fixture
def landing(tmp_path):
    landing = Landing(tmp_path, "host:9876-17")
    yield landing
    landing.seal_all()


def files(folder):
    return sorted(str(path.relative_to(folder / "landing/v1")) for path in folder.rglob("*") if path.is_file())


def test_file_lies_in_the_hour_of_its_first_row_and_gets_its_name_when_sealed(tmp_path, landing):
    landing.append("heartbeat", b'{"a":1}\n', AT_US)
    place = "family=heartbeat/date=2026-11-21/hour=20/"
    assert files(tmp_path) == [place + ".host_9876-17-1.jsonl.part"]
    assert landing.opened_us == AT_US
    landing.seal_all()
    assert files(tmp_path) == [place + "host_9876-17-1.jsonl"]
    assert landing.opened_us is None


@pytest.mark.parametrize("later_us", [SEAL_AFTER_US, HOUR_US // 2])
def test_an_old_file_is_sealed_and_so_is_one_of_another_hour(tmp_path, landing, later_us):
    landing.append("heartbeat", b"{}\n", AT_US)
    landing.seal_old(AT_US + later_us - 1)
    assert files(tmp_path)[0].endswith(".part") == (later_us == SEAL_AFTER_US)
    landing.seal_old(AT_US + later_us)
    assert files(tmp_path)[0].endswith("-1.jsonl")
    landing.append("heartbeat", b"{}\n", AT_US + later_us)
    assert len(files(tmp_path)) == 2


def test_sealed_snapshots_are_compressed(tmp_path, landing):
    landing.append("route_snapshot", b'{"topics":[]}\n', AT_US)
    landing.seal_all()
    (name,) = files(tmp_path)
    assert name.endswith("-1.jsonl.gz")
    assert gzip.decompress((tmp_path / "landing/v1" / name).read_bytes()) == b'{"topics":[]}\n'


def test_growing_files_are_read_without_their_torn_line(tmp_path, landing):
    landing.append("heartbeat", b"1\n", AT_US)
    landing.seal_all()
    landing.append("heartbeat", b"2\n", AT_US)
    (growing,) = tmp_path.rglob("*.part")
    with growing.open("ab") as file:
        file.write(b"3 is torn")
    found = sealed_files(tmp_path, "heartbeat", AT - timedelta(hours=1), AT)
    assert sorted(line for path in found for line in lines_of(path)) == [b"1", b"2"]
    assert list(sealed_files(tmp_path, "heartbeat", AT + timedelta(hours=3), AT + timedelta(hours=4))) == []


def test_file_sealed_after_listing_is_read_under_its_new_name(tmp_path, landing):
    for family in ("heartbeat", "route_snapshot"):
        landing.append(family, b"1\n", AT_US)
    listed = [path for family in ("heartbeat", "route_snapshot") for path in sealed_files(tmp_path, family, AT, AT)]
    landing.seal_all()
    assert [list(lines_of(path)) for path in listed] == [[b"1"], [b"1"]]


def test_file_that_is_just_being_begun_is_not_lost_to_a_process_that_recovers_files(tmp_path, landing, monkeypatch):
    lock = fcntl.flock
    recovered = []

    def recovered_before(file, operation):
        if operation == fcntl.LOCK_EX and not recovered:
            recovered.append(Landing(tmp_path, "host:1-1").recover())
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", recovered_before)
    landing.append("ns_tick", b"1\n", AT_US)
    landing.append("ns_tick", b"2\n", AT_US)
    landing.seal_all()
    assert recovered == [[]]
    assert [list(lines_of(each)) for each in sealed_files(tmp_path, "ns_tick", AT, AT)] == [[b"1", b"2"]]


def test_files_of_a_running_process_are_not_recovered(tmp_path, landing):
    landing.append("heartbeat", b"1\n", AT_US)
    assert Landing(tmp_path, "host:1-1").recover() == []
    landing.append("heartbeat", b"2\n", AT_US)
    landing.seal_all()
    assert len(files(tmp_path)) == 1


def test_files_of_a_killed_process_are_sealed_without_their_torn_line(tmp_path):
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from history.landing import Landing\n"
        "landing = Landing(Path(sys.argv[1]), 'host:2-1')\n"
        f"landing.append('heartbeat', b'1\\n2\\n', {AT_US})\n"
        f"landing.append('route_snapshot', b'3\\n', {AT_US})\n"
        f"landing.append('ns_tick', b'', {AT_US})\n"
        "for each in landing._growing.values():\n"
        "    each.file.write(b'torn')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, tmp_path], cwd=ROOT, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert Landing(tmp_path, "another-host:2-1").recover() == []
    found = Landing(tmp_path, "host:3-1").recover()
    assert sorted((path.name, list(lines_of(path))) for path in found) == [
        ("host_2-1-1.jsonl", [b"1", b"2"]),
        ("host_2-1-2.jsonl.gz", [b"3"]),
    ]
    assert len(files(tmp_path)) == 2
    assert Landing(tmp_path, "host:4-1").recover() == []


def test_process_without_a_port_seals_files_of_an_earlier_process_of_its_name(tmp_path):
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from history.landing import Landing\n"
        "for name in ('sampler_a', 'sampler_a_2', 'sampler_b'):\n"
        f"    Landing(Path(sys.argv[1]), name + '-1').append('offset_sample', b'1\\n', {AT_US})\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], cwd=ROOT, check=True)
    (found,) = Landing(tmp_path, "sampler_a-2").recover()
    assert found.name == "sampler_a-1-1.jsonl"


def test_failed_write_leaves_the_file_as_it_was(tmp_path, landing, monkeypatch):
    landing.append("heartbeat", b"1\n", AT_US)
    growing = landing._growing["heartbeat"]
    real = growing.file

    class Full:
        """A file on a disk that has room for some bytes more."""

        truncate, seek, fileno, close = real.truncate, real.seek, real.fileno, real.close

        def write(self, data):
            if len(data) > 3:
                return real.write(data[:3])
            raise OSError(28, "No space left on device")

    growing.file = Full()
    with pytest.raises(OSError, match="No space left"):
        landing.append("heartbeat", b"23456\n", AT_US)
    growing.file = real
    landing.append("heartbeat", b"7\n", AT_US)
    landing.seal_all()
    (path,) = tmp_path.rglob("*.jsonl")
    assert path.read_bytes() == b"1\n7\n"


def test_late_written_rows_lie_in_the_hour_in_which_they_happened(tmp_path, landing):
    for hours in (0, 1, 3):
        landing.append("broker_state", b"%d\n" % hours, AT_US + hours * HOUR_US)
    landing.seal_all()
    found = sealed_files(tmp_path, "broker_state", AT + timedelta(hours=3), AT + timedelta(hours=3))
    assert [line for path in found for line in lines_of(path)] == [b"3"]


@pytest.mark.parametrize("family", ["heartbeat", "route_snapshot"])
def test_deleted_folder_raises_once_and_is_then_written_anew(tmp_path, landing, family):
    landing.append(family, b"1\n2\n", AT_US)
    shutil.rmtree(tmp_path / "landing")
    with pytest.raises(RowsLost, match=f"2 rows of {family} are lost") as raised:
        landing.append(family, b"3\n", AT_US + 1)
    assert (raised.value.family, raised.value.rows, raised.value.since_us) == (family, 2, AT_US)
    landing.append(family, b"3\n", AT_US + 1)
    shutil.rmtree(tmp_path / "landing")
    landing.append("broker_state", b"1\n", AT_US + 1)
    shutil.rmtree(tmp_path / "landing")
    with pytest.raises(ExceptionGroup) as group:
        landing.seal_all()
    assert [(each.family, each.rows) for each in group.value.exceptions] == [(family, 1), ("broker_state", 1)]
    landing.append(family, b"4\n", AT_US + 2)
    landing.seal_all()
    (path,) = (tmp_path / "landing").rglob("*.jsonl*")
    assert list(lines_of(path)) == [b"4"]


def test_torn_compressed_file_is_read_up_to_the_tear(tmp_path):
    lines = [b"%064x" % random.Random(number).getrandbits(256) for number in range(2_000)]
    path = tmp_path / "torn.jsonl.gz"
    whole = gzip.compress(b"\n".join(lines) + b"\n")
    path.write_bytes(whole[: len(whole) // 2])
    found = list(lines_of(path))
    assert found == lines[: len(found)]
    assert 500 < len(found) < 2_000
    path.write_bytes(b"no gzip at all")
    assert list(lines_of(path)) == []


def test_sealed_files_of_any_two_times_can_be_listed(tmp_path, landing):
    landing.append("heartbeat", b"1\n", AT_US)
    (tmp_path / "landing/v1/family=heartbeat/date=of-nobody/hour=1").mkdir(parents=True)
    ever = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert len(list(sealed_files(tmp_path, "heartbeat", *ever))) == 1


def test_recovery_looks_only_at_days_from_the_given_one_on(tmp_path):
    place = tmp_path / "landing/v1/family=heartbeat/date=2026-11-20/hour=20"
    place.mkdir(parents=True)
    (place / ".host_1-1-1.jsonl.part").write_bytes(b"1\n")
    assert Landing(tmp_path, "host:2-1").recover(date(2026, 11, 21)) == []
    assert len(Landing(tmp_path, "host:2-1").recover(date(2026, 11, 20))) == 1
