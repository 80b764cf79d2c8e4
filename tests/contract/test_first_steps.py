"""The first things that people type, as the Makefile and docs/tour.md have them: `make run`, and their own brokers."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from peers.processes import free_port
from peers.programs import require
from peers.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
READY = re.compile(r'"event":"server_ready".*"ns_id"')
PORTS = ("listen-port", "http-port", "controller-listen-port", "controller-http-port")
SOON_S = 60


@pytest.fixture(autouse=True)
def make_is_installed():
    require("make")


#: As a shell: makes its input the terminal of its session, runs a command, and ends when the terminal is closed; also
#: where these tests run under nohup.
SHELL = """
import fcntl, signal, subprocess, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
subprocess.call(sys.argv[1:])
"""


class Made:
    """`make run` in a session of its own, with the Python of this test and nothing of the home folder.

    In a terminal, if `terminal` is the slave side of one; what it prints is in a file nevertheless.
    """

    def __init__(self, folder, terminal=None, run_args="", environment=None):
        self.ports = {name: free_port() for name in PORTS}
        venv = folder / "venv"
        venv.mkdir()
        (venv / "bin").symlink_to(Path(sys.executable).parent)
        (venv / ".run").touch()
        words = ["make", "run", f"VENV={venv}", f"HISTORY={folder / 'history'}"]
        ports = (f"--{name} {port}" for name, port in self.ports.items())
        words.append("RUN_ARGS=" + " ".join((run_args, *ports)))
        if terminal is not None:
            words = [sys.executable, "-c", SHELL, *words]
        self.log = folder / "make.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words,
                cwd=REPOSITORY,
                env=os.environ | {"HOME": str(folder)} | (environment or {}),
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self):
        def ready():
            assert self.process.poll() is None, self.log.read_text()
            return READY.search(self.log.read_text())

        wait_until(ready, seconds=SOON_S, what="the server is ready")

    def serves(self):
        # Reset: the listener was closed while the connection waited to be accepted.
        with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
            socket.create_connection(("127.0.0.1", self.ports["listen-port"]), timeout=5).close()
            return True
        return False

    def close(self):
        """End whatever is left of the session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=SOON_S)


@pytest.fixture
def made(tmp_path):
    making = Made(tmp_path)
    try:
        making.wait_until_ready()
        yield making
    finally:
        making.close()


def test_terminated_make_stops_the_server_in_order(made):
    made.process.terminate()
    made.process.wait(timeout=SOON_S)
    assert not made.serves()
    assert '"event":"server_stopped"' in made.log.read_text()


def test_closed_terminal_of_make_stops_the_server_in_order(tmp_path):
    """Another SIGHUP has it read its certificates again."""
    ours, its = os.openpty()
    making = Made(tmp_path, terminal=its)
    os.close(its)
    try:
        making.wait_until_ready()
        os.close(ours)
        making.process.wait(timeout=SOON_S)
        wait_until(lambda: not making.serves(), seconds=SOON_S, what="the server has ended")
        wait_until(
            lambda: '"event":"server_stopped"' in making.log.read_text(), seconds=SOON_S, what="it has ended in order"
        )
    finally:
        making.close()


def test_make_run_prints_exactly_the_served_addresses_and_the_console_last(made):
    wait_until(lambda: "The console is at" in made.log.read_text(), seconds=SOON_S, what="both servers are ready")
    lines = made.log.read_text().splitlines()
    printed = [line for line in lines if not line.startswith("{")]
    assert set(re.findall(r"\d+\.\d+\.\d+\.\d+:\d+", "\n".join(printed))) == {
        f"127.0.0.1:{port}" for port in made.ports.values()
    }
    assert set(re.findall(r"http://127\.0\.0\.1:(\d+)/ui/", lines[-1])) == {
        str(made.ports[name]) for name in ("http-port", "controller-http-port")
    }
    assert not any('"config"' in line for line in lines)


#: Stands for a program of the tour that is not the matter here.
NOTHING = "#!/bin/sh\nexit 0\n"
#: Is seen by `ps` as the Java process that it stands for.
JAVA = '#!/bin/bash\nexec -a "java $*" /bin/sleep 300\n'
#: Answers about a set: the first time it has no master. Writes down which replicas were started by then.
RMQ = """#!/bin/sh
case "$*" in "broker list") echo broker-a; exit 0 ;; "controller sets broker-b -o jsonl") ;; *) exit 0 ;; esac
[ -e "$ASKED" ] && role=master || role=slave
(cd "$ROCKETMQ_HOME" && echo replica-*.pid) >> "$ASKED"
echo "{\\"role\\":\\"$role\\"}"
"""
#: Would be a broker of somebody else.
BY_NAME = '#!/bin/sh\necho "$0 $*" >> "$KILLED_BY_NAME"\n'
FOREIGN = "java org.apache.rocketmq.broker.BrokerStartup -c /elsewhere/conf/broker.conf replica-0.conf"


@pytest.fixture
def shell(tmp_path):
    """Run commands in bash, as at a terminal or not; `java` only waits, and nothing is killed by its name."""
    programs = tmp_path / "programs"
    programs.mkdir()
    texts = {"java": JAVA, "pkill": BY_NAME, "killall": BY_NAME, "rmq": RMQ} | dict.fromkeys(
        ("mvn", "sleep", "curl"), NOTHING
    )
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    found = {"PATH": f"{programs}:{os.environ['PATH']}", "KILLED_BY_NAME": str(tmp_path / "killed_by_name")}
    found["ASKED"] = str(tmp_path / "asked")

    def run(commands, *options):
        file = tmp_path / "commands.sh"
        file.write_text(commands)
        with (tmp_path / "told.txt").open("w") as printed:
            words = ["bash", "-u", *options, file]
            done = subprocess.run(
                words, cwd=tmp_path, env=os.environ | found, stdout=printed, stderr=printed, check=False
            )
        assert done.returncode == 0, (tmp_path / "told.txt").read_text()

    return run


def commands_between(heading, next_heading):
    """Return the commands of the tour from a heading to another one."""
    text = (REPOSITORY / "docs" / "tour.md").read_text()
    part = re.search(rf"^## {heading}\n(.*?)^## {next_heading}", text, re.MULTILINE | re.DOTALL)[1]
    return "".join(re.findall(r"```sh\n(.*?)```", part, re.DOTALL))


def tour():
    """Return the commands of the tour with a real broker, without those that ask RocketMQ's tools."""
    blocks = commands_between("Five minutes with a real broker", "A topic gets more queues")
    return "\n".join(line for line in blocks.splitlines() if "MQAdminStartup" not in line)


def brokers(folder):
    """Return process id -> command line, of what stands for a broker with a configuration in a folder."""
    listed = subprocess.run(["ps", "-wweo", "pid=,args="], capture_output=True, text=True, check=True).stdout
    lines = {int(line.split()[0]): line for line in listed.splitlines()}
    return {pid: line for pid, line in lines.items() if "broker.BrokerStartup" in line and str(folder) in line}


def left(folder):
    """Return the configurations of the brokers that live."""
    return [re.search(r"[\w-]+\.conf", line)[0] for line in brokers(folder).values()]


def kill_brokers(folder):
    """Kill them and return whom."""
    found = brokers(folder)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


@pytest.mark.parametrize("options", [(), ("-m",)], ids=["script", "terminal"])
def test_demo_kills_only_its_own_brokers(shell, tmp_path, options):
    foreign = subprocess.Popen(["bash", "-c", f"exec -a '{FOREIGN}' sleep 300"])
    try:
        shell(tour(), *options)
        wait_until(lambda: left(tmp_path) == ["replica-1.conf"], seconds=SOON_S, what=lambda: f"not {left(tmp_path)}")
        read_files = (tmp_path / "asked").read_text().splitlines()
        assert read_files[:2] == ["replica-0.pid"] * 2, (
            "the second replica waits until the first one leads, which is killed"
        )
        assert foreign.poll() is None
        assert not (tmp_path / "killed_by_name").exists(), "brokers of others have the same name"
    finally:
        foreign.kill()
        foreign.wait(timeout=SOON_S)
        wait_until(lambda: not kill_brokers(tmp_path), seconds=SOON_S, what="nothing is left")


@pytest.fixture
def scaling(tmp_path, shell):
    """`make run` with the token and the policies of the tour."""
    commands, make_run = commands_between("A topic gets more queues", "What happened").split("make run ", 1)
    shell(f'{commands}echo "$RMQ_CONTROLLER_SCALING_POLICY_FILE" > policies')
    run_args = re.match(r'RUN_ARGS="(.*)"', make_run)[1].replace("$PWD", str(tmp_path))
    policies = {"RMQ_CONTROLLER_SCALING_POLICY_FILE": (tmp_path / "policies").read_text().strip()}
    making = Made(tmp_path, run_args=run_args, environment=policies)
    try:
        making.wait_until_ready()
        yield making
    finally:
        making.close()


def requested(made, path, token="", body=None):
    """Return the status and the body of a request to the controller's HTTP side."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    url = f"http://127.0.0.1:{made.ports['controller-http-port']}/v1/scaling/{path}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_tour_puts_token_and_policies_of_scaling_in_force(scaling, tmp_path):
    token = (tmp_path / ".cache" / "tour" / "token").read_text().strip()
    wanted = {"topic": "Orders", "queues": 16}

    def policies():
        status, listed = requested(scaling, "policies")
        return listed["policies"] if status == 200 else None

    (policy,) = wait_until(policies, seconds=SOON_S, what="the controller leads, and has read the policies")
    refused, _ = requested(scaling, "plan", body=wanted)
    status, plan = requested(scaling, "plan", token, wanted)

    assert (policy["topic"], policy["min"], policy["max"], policy["mode"]) == ("Orders", 8, 32, "propose")
    assert refused in (401, 403)
    assert status == 200, "the controller looks for the topic at the NameServer of its process"
    assert plan["problems"]
