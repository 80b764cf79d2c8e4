"""Files that rows land in: whole lines only, sealed by a rename, and what a dead process left is not lost."""

import gzip
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from history.landing import SEAL_AFTER_US, Landing, lines_of, sealed_files

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


def test_a_file_lies_where_its_first_row_belongs_and_gets_its_name_when_it_is_sealed(tmp_path, landing):
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


def test_snapshots_are_packed(tmp_path, landing):
    landing.append("route_snapshot", b'{"topics":[]}\n', AT_US)
    landing.seal_all()
    (name,) = files(tmp_path)
    assert name.endswith("-1.jsonl.gz")
    assert gzip.decompress((tmp_path / "landing/v1" / name).read_bytes()) == b'{"topics":[]}\n'


def test_what_grows_is_read_as_well_as_what_is_sealed_but_no_torn_line(tmp_path, landing):
    landing.append("heartbeat", b"1\n", AT_US)
    landing.seal_all()
    landing.append("heartbeat", b"2\n", AT_US)
    (growing,) = tmp_path.rglob("*.part")
    with growing.open("ab") as file:
        file.write(b"3 is torn")
    found = sealed_files(tmp_path, "heartbeat", AT - timedelta(hours=1), AT)
    assert sorted(line for path in found for line in lines_of(path)) == [b"1", b"2"]
    assert list(sealed_files(tmp_path, "heartbeat", AT + timedelta(hours=3), AT + timedelta(hours=4))) == []


def test_a_file_that_was_sealed_since_it_was_listed_is_read_under_its_new_name(tmp_path, landing):
    for family in ("heartbeat", "route_snapshot"):
        landing.append(family, b"1\n", AT_US)
    listed = [path for family in ("heartbeat", "route_snapshot") for path in sealed_files(tmp_path, family, AT, AT)]
    landing.seal_all()
    assert [list(lines_of(path)) for path in listed] == [[b"1"], [b"1"]]


def test_the_files_of_a_living_process_are_left_to_it(tmp_path, landing):
    landing.append("heartbeat", b"1\n", AT_US)
    assert Landing(tmp_path, "host:1-1").recover() == []
    landing.append("heartbeat", b"2\n", AT_US)
    landing.seal_all()
    assert len(files(tmp_path)) == 1


def test_what_a_killed_process_left_is_sealed_without_its_torn_line(tmp_path):
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


def test_a_refused_writing_leaves_the_file_as_it_was(tmp_path, landing, monkeypatch):
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


def test_days_that_are_over_go_and_those_of_states_stay_longer(tmp_path, landing):
    for family in ("heartbeat", "broker_state"):
        landing.append(family, b"1\n", AT_US)
    landing.seal_all()
    landing.forget_old(date(2026, 11, 23))
    assert len(files(tmp_path)) == 2
    landing.forget_old(date(2026, 11, 24))
    assert [name.split("/")[0] for name in files(tmp_path)] == ["family=broker_state"]
    landing.forget_old(date(2026, 12, 23))
    assert files(tmp_path) == []
