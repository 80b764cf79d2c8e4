"""An address that moves between hosts: real kernels, ARP and connections; stand-ins for brokers and controllers."""

import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import pytest
from agent_sites import ADDRESS, ADDRESS_6, AGENT_PORT, HA_PORT, LATE_S, LEASE_S, REPOSITORY
from peers.figures import print_figures
from peers.waiting import holds_for, wait_until

pytestmark = pytest.mark.broad

#: Established sessions to a demoted broker have to end within this time.
SESSIONS_END_S = 1.0
#: Hosts and programs of a busy machine may be so late; what is measured is printed.
BUSY_S = 10


def answered_by(client, name, seconds=BUSY_S):
    return wait_until(lambda: client.last == name, seconds=seconds, what=f"an answer of {name}")


@pytest.mark.parametrize("address", [ADDRESS, ADDRESS_6], ids=["ipv4", "ipv6"])
def test_address_moves_with_the_role_and_the_client_gets_to_the_new_master_at_once(site, capsys, address):
    client = site.client(address=address)
    assert client.last == "broker-2"
    start = time.perf_counter()
    site.controller.elect(3, 2, 2)
    answered_by(client, "broker-3")
    assert site.holders() == [3]
    gap_s = client.longest_gap_s(start)
    print_figures(capsys, f"role address: moved without a failure, {address}: longest gap {gap_s:.2f} s")
    assert gap_s < LEASE_S, "no lease had to lapse"
    wait_until(lambda: client.answers[-1][0] > start + gap_s, seconds=BUSY_S, what="more answers")
    assert {name for at, name in client.answers if at > start + gap_s} == {"broker-3"}


@pytest.mark.parametrize("refuses", [False, True], ids=["without refusals", "with refusals"])
def test_client_of_a_killed_broker_gets_to_the_new_master(site, capsys, refuses):
    if refuses:
        site.hosts[0].run("nft", "flush", "ruleset")
    client = site.client()
    start = time.perf_counter()
    site.hosts[0].broker.kill()
    site.fail_over(2)
    answered_by(client, "broker-3")
    print_figures(
        capsys,
        f"role address: broker killed, elected after 0.25 s, {'with' if refuses else 'without'} refusals: "
        f"longest gap {client.longest_gap_s(start):.2f} s, {len(client.failures)} failed connections",
    )
    assert site.holders() == [3]
    if not refuses:
        # The one that ended with the broker: three attempts of a send are not spent within milliseconds.
        assert len(client.failures) <= 2


@pytest.mark.parametrize("address", [ADDRESS, ADDRESS_6], ids=["ipv4", "ipv6"])
def test_sessions_of_a_frozen_broker_end_within_a_second_and_it_gets_no_byte_after_it_thaws(site, capsys, address):
    old, client = site.hosts[0], site.client(address=address)
    old.broker.pause()
    time.sleep(0.5)
    start = time.perf_counter()
    site.fail_over(2)
    wait_until(lambda: client.failures, seconds=BUSY_S, what="the end of the client's session")
    ended_s = client.failures[0][0] - start
    answered_by(client, "broker-3")
    print_figures(
        capsys,
        f"role address: broker frozen, {address}, elected after 0.25 s: session ended after {ended_s:.2f} s, "
        f"longest gap from then {client.longest_gap_s(start):.2f} s",
    )
    assert ended_s < 0.25 + SESSIONS_END_S
    thawed = old.broker.position()
    old.broker.resume()
    old.broker.wait_for("lost", position=thawed, seconds=BUSY_S)
    # One line may have been in its buffer when the session ended; its answer cannot leave the host.
    assert old.broker.text(thawed).count("got") <= 1
    count = len(client.answers)
    wait_until(lambda: len(client.answers) > count + 50, seconds=BUSY_S, what="more answers")
    assert {name for _, name in client.answers[count:]} == {"broker-3"}


def slave_is_cut_off(host):
    """Return whether a connection of a slave on `host` to the master on host 2 is closed within a second."""
    with host.host.inside(), socket.create_connection(("10.99.0.2", HA_PORT), timeout=1) as slave:
        try:
            slave.recv(1)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
    raise AssertionError("a master sends nothing by itself")


def test_slaves_of_a_superseded_master_are_cut_off_and_those_of_a_failed_one_are_not(site):
    """An elected slave of a frozen master waits for its silent connection for up to a second before it serves."""
    old, new = site.hosts
    with old.host.inside():
        listener = socket.create_server(("10.99.0.2", HA_PORT))
    with listener:
        site.controller.roles[2] = "down #failed epoch 1"
        wait_until(lambda: not old.has_address, seconds=BUSY_S, what="the release")
        assert not slave_is_cut_off(new)
        site.controller.elect(3, 2, 2)
        # One that has not been notified yet connects again.
        assert [slave_is_cut_off(new) for _ in range(2)] == [True, True]
        site.controller.elect(2, 3, 3)
        wait_until(lambda: old.has_address, seconds=BUSY_S, what="the address on host 2")
        assert not slave_is_cut_off(new)


def test_client_notices_the_new_master_at_once_if_that_one_took_seconds_until_it_serves(site, capsys):
    old, client = site.hosts[0], site.client()
    old.broker.pause()
    # Its request has arrived, so that nothing but a notice makes it connect again before its timeout of 3 s.
    time.sleep(0.5)
    start = time.perf_counter()
    site.fail_over(2, elected_for_s=1.2)
    elected_s = time.perf_counter() - start
    answered_by(client, "broker-3")
    ended_s = client.failures[0][0] - start - elected_s
    print_figures(capsys, f"role address: elected broker serves after 1.2 s, session ended {ended_s:.2f} s later")
    assert ended_s < SESSIONS_END_S


def test_frozen_host_releases_the_address_before_it_asks_when_it_thaws(site):
    old, client = site.hosts[0], site.client()
    for process in (old.broker, old.agent):
        process.pause()
    site.fail_over(2)
    wait_until(lambda: not old.has_address, seconds=LEASE_S + BUSY_S, what="the kernel's end of the lease")
    answered_by(client, "broker-3", seconds=LEASE_S + BUSY_S)
    thawed, count = old.agent.position(), len(client.answers)
    # The agents that queried it meanwhile have given up; what they sent is still in its sockets.
    old.agent.resume()
    old.broker.resume()
    old.agent.wait_for('"sessions_ended"', position=thawed, seconds=BUSY_S)
    lines = [json.loads(line) for line in old.agent.text(thawed).splitlines()]
    assert [line["event"] for line in lines if line["event"].startswith("address_")] == ["address_released"]
    wait_until(lambda: len(client.answers) > count + 50, seconds=BUSY_S, what="more answers")
    assert {name for _, name in client.answers[count:]} == {"broker-3"}
    assert site.holders() == [3]


def test_cut_off_host_loses_the_address_before_another_takes_it_and_does_not_answer_for_it_later(site, capsys):
    old, client = site.hosts[0], site.client()
    start = time.perf_counter()
    old.host.leave()
    site.fail_over(2)
    both = []

    def moved():
        both.append(site.holders())
        return both[-1] == [3]

    wait_until(moved, seconds=LEASE_S + BUSY_S, what="the address on host 3")
    assert [2, 3] not in both
    answered_by(client, "broker-3")
    print_figures(capsys, f"role address: host cut off, lease 3 s: longest gap {client.longest_gap_s(start):.2f} s")
    old.host.join()
    count = len(client.answers)
    holds_for(lambda: site.holders() == [3], seconds=2, what="the address on host 3 alone")
    client.run("ip", "neighbour", "flush", "all")
    time.sleep(0.5)
    assert {name for _, name in client.answers[count:]} == {"broker-3"}
    assert site.hosts[1].mac in client.run("ip", "neighbour", "show", ADDRESS)


def test_address_of_a_killed_agent_ends_with_its_lease(site, capsys):
    old = site.hosts[0]
    start = time.perf_counter()
    old.agent.kill()
    wait_until(lambda: not old.has_address, seconds=LEASE_S + BUSY_S, what="the kernel's end of the lease")
    ended_s = time.perf_counter() - start
    print_figures(capsys, f"role address: agent killed, lease 3 s: address ended after {ended_s:.2f} s")


def test_stopped_agent_releases_the_address_and_another_master_takes_it_at_once(site):
    assert site.hosts[0].agent.stop() == 0
    assert site.holders() == []
    site.controller.elect(3, 2, 2)
    wait_until(lambda: site.holders() == [3], seconds=LEASE_S + LATE_S + BUSY_S, what="the address on host 3")


def test_address_that_a_foreign_host_has_is_not_taken_until_it_is_free(site):
    foreign = site.network.host(9)
    with foreign.inside():
        subprocess.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "inner"], check=True)
        mac = subprocess.run(["ip", "-o", "link", "show", "inner"], capture_output=True, text=True, check=True).stdout
    site.controller.elect(3, 2, 2)
    refused = site.hosts[1].agent.wait_for('"address_in_use".*"owner": "([0-9a-f:]+)"', seconds=BUSY_S)
    assert refused[1] in mac
    assert site.holders() == []
    with foreign.inside():
        subprocess.run(["ip", "address", "delete", f"{ADDRESS}/24", "dev", "inner"], check=True)
    wait_until(lambda: site.holders() == [3], seconds=BUSY_S, what="the address on host 3")


@pytest.mark.parametrize("source", ["10.99.0.9", "10.99.0.3"], ids=["foreigner", "known host"])
def test_invalid_requests_move_no_address(site, source):
    host = site.network.host(9) if source.endswith(".9") else site.hosts[1].host
    claim = (
        b"claim broker-a/3 epoch 99 lease 3000\n"
        if source.endswith(".9")
        else b"claim broker-b/3 epoch 99 lease 3000\n"
    )
    for request in (claim, b"nonsense\n", b"\xff" * 10_000, b"\n", b"status\n"):
        with host.inside(), socket.create_connection(("10.99.0.2", AGENT_PORT), source_address=(source, 0)) as line:
            line.settimeout(BUSY_S)
            line.sendall(request)
            # Without an answer it is closed, or reset if more was sent than read.
            with contextlib.suppress(ConnectionResetError):
                assert line.recv(100) == b"" or request == b"status\n"
    assert site.holders() == [2]
    assert '"request_refused"' in site.hosts[0].agent.text()


def test_status_shows_the_address_its_epoch_and_the_last_answers(site):
    holder, other = (host.status() for host in site.hosts)
    assert (holder["phase"], holder["masterEpoch"], holder["addresses"]) == (
        "holding",
        1,
        [f"{ADDRESS}/24", f"{ADDRESS_6}/64"],
    )
    assert 0 < holder["leaseLeftMs"] <= LEASE_S * 1000
    assert holder["controllers"][site.controller.address]["answer"] == "up ready #epoch 1"
    assert [change["change"] for change in holder["changes"]] == ["taken"]
    assert (other["phase"], other["leaseLeftMs"]) == ("standby", None)


def test_metrics_show_whether_an_agent_runs_and_has_the_address(site):
    old = site.hosts[0]
    command = (sys.executable, "-m", "role_agent", "metrics", str(old.file))
    assert 'rocketmq_role_agent_phase{set="broker-a",broker_id="2",phase="holding"} 1\n' in old.run(*command)
    old.agent.kill()
    assert old.run(*command).splitlines()[2:] == ['rocketmq_role_agent_up{set="broker-a",broker_id="2"} 0']


@pytest.fixture
def public_folder():
    """A folder that every user can read; folders of pytest are for the user who runs it alone."""
    with tempfile.TemporaryDirectory(prefix="role-agent-") as folder:
        public = pathlib.Path(folder)
        public.chmod(0o755)
        yield public


def test_agent_without_root_has_all_it_needs_from_two_capabilities(site, public_folder):
    old = site.hosts[0]
    old.agent.stop()
    old.file = pathlib.Path(shutil.copy(old.file, public_folder))
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
    kept = "+net_admin,+net_raw"
    if subprocess.run([*nobody, sys.executable, "-c", "import role_agent"], cwd=REPOSITORY, check=False).returncode:
        # The checkout is in a private folder, which a packaged agent is not.
        kept += ",+dac_read_search"
    old.start_agent(
        *nobody, *(f"--inh-caps={kept}", f"--ambient-caps={kept}", f"--bounding-set=-all,{kept}")
    ).agent_ready()
    wait_until(lambda: old.has_address, seconds=LEASE_S + BUSY_S, what="the address")
    client = site.client()
    site.controller.elect(3, 2, 2)
    answered_by(client, "broker-3")
    old.agent.wait_for('"sessions_ended"', seconds=BUSY_S)
    assert old.run("ps", "-o", "uid=", "-p", str(old.agent.pid)).strip() == "65534"
    assert '"level": "error"' not in old.agent.text()
