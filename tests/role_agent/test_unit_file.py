"""The unit of the document, and what the agent reports to systemd."""

import re
import socket
import subprocess
import sys
from pathlib import Path

from peers.programs import require

from role_agent.service import SystemdNotices

ROOT = Path(__file__).parents[2]


def test_systemd_accepts_the_unit_of_the_document(tmp_path):
    require("systemd-analyze")
    document = (ROOT / "docs" / "role-addresses-vip.md").read_text()
    unit = re.search(r"```ini\n(.*?)```", document, re.DOTALL)[1]
    file = tmp_path / "rmq-role-agent@.service"
    installed = str(Path(sys.executable).parent)
    file.write_text(re.sub(r"^ +", "", unit, flags=re.MULTILINE).replace("/opt/rocketmq/bin", installed))
    verified = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_notices_reach_the_socket_that_systemd_names(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        notices = SystemdNotices({"NOTIFY_SOCKET": path})
        notices.ready()
        notices.still_runs()
        assert [systemd.recv(100), systemd.recv(100)] == [b"READY=1", b"WATCHDOG=1"]


def test_without_systemd_nothing_is_sent():
    SystemdNotices({}).ready()
    SystemdNotices({"NOTIFY_SOCKET": "@nobody-listens-here"}).still_runs()
