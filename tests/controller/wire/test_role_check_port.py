"""Role checks over real sockets: quick ones, slow ones, and peers that send something else."""

import asyncio
import contextlib
import socket
import struct

import pytest

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.events import RoleChecked
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.wire import role_check_port
from controller.wire.role_check_port import RoleCheckPort
from remoting.server.server import BindError
from serving.telemetry.events import Count, Counted

HOST = "127.0.0.1"
#: Generous: only waits that would never end end here.
WAIT_S = 20
SERVES = RoleAnswer(RoleVerdict.SERVES, 3)
ANSWERS = {
    BrokerKey("broker-a", 1): SERVES,
    BrokerKey("broker-a", 2): RoleAnswer(RoleVerdict.SUPERSEDED, 3),
}


class Reports:
    def __init__(self):
        self.checked, self.hosts, self.leader, self.refused = [], [], [], 0

    def record(self, key, host, answer):
        self.hosts.append((key, host, answer))

    def emit(self, event):
        match event:
            case RoleChecked(key=key, answer=answer):
                self.checked.append((key, answer))
            case Counted(count=Count(labels=("invalid",))):
                self.refused += 1
            case Counted(count=Count(labels=(answer,))):
                self.leader.append(answer == "leads")


class Served:
    def __init__(self):
        self.reports, self.leads = Reports(), True
        unknown = RoleAnswer(RoleVerdict.UNKNOWN, 0, "no such broker is stored")
        self.port = RoleCheckPort(
            lambda key: ANSWERS.get(key, unknown), lambda: self.leads, self.reports.record, self.reports.emit
        )
        self.number = self.port.listen(HOST, 0)

    async def connect(self):
        return await asyncio.wait_for(asyncio.open_connection(HOST, self.number), WAIT_S)

    async def check(self, *pieces):
        """Send these pieces one after the other, and return all that is answered until the connection closes."""
        reader, writer = await self.connect()
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.02)
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await asyncio.wait_for(reader.read(), WAIT_S)
        writer.close()
        return answer


@pytest.fixture
async def served():
    served = Served()
    yield served
    served.port.close()


async def test_each_check_is_answered_with_one_line_and_the_connection_closes(served):
    assert await served.check(b"broker-a/1\n") == b"up ready #epoch 3\n"
    assert await served.check(b"broker-a/2\r\n") == b"down #superseded epoch 3\n"
    assert await served.check(b"broker-b/1\n") == b"#unknown no such broker is stored\n"
    assert [key for key, _ in served.reports.checked] == [
        BrokerKey("broker-a", 1),
        BrokerKey("broker-a", 2),
        BrokerKey("broker-b", 1),
    ]
    assert served.reports.checked[0][1] == SERVES
    assert served.reports.refused == 0


async def test_proxy_learns_which_controller_leads(served):
    assert await served.check(b"leader\n") == b"up #this controller leads\n"
    served.leads = False
    assert await served.check(b"leader\n") == b"down #this controller does not lead\n"
    assert served.reports.leader == [True, False]


async def test_line_that_comes_in_pieces_is_answered(served):
    assert await served.check(b"brok", b"er-a", b"/1\n") == b"up ready #epoch 3\n"


async def test_what_follows_the_line_is_not_read(served):
    assert await served.check(b"broker-a/1\nbroker-a/2\n") == b"up ready #epoch 3\n"
    assert len(served.reports.checked) == 1


@pytest.mark.parametrize("line", [b"GET / HTTP/1.1\r\n", b"\n", b"\xff\xfe\n", b"x" * 301, b"x" * 10_000])
async def test_invalid_line_changes_nothing_and_is_told_what_is_valid(served, line):
    # A peer that goes on sending may lose the answer to the reset of its connection.
    assert await served.check(line) in {b"#unknown the line must be BROKERNAME/BROKERID, or leader\n", b""}
    assert served.reports.refused == 1
    assert not served.reports.checked


async def test_peer_that_closes_without_a_line_is_refused(served):
    _, writer = await served.connect()
    writer.write(b"broker")
    await asyncio.sleep(0.05)
    writer.close()
    await eventually(lambda: served.reports.refused == 1)


async def test_peer_that_resets_its_connection_does_no_harm(served):
    for _ in range(5):
        raw = socket.create_connection((HOST, served.number))
        raw.send(b"broker-a/1\n")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.close()
    assert await served.check(b"broker-a/1\n") == b"up ready #epoch 3\n"


async def test_line_that_takes_too_long_ends_the_connection(served, monkeypatch):
    monkeypatch.setattr(role_check_port, "LINE_S", 0.1)
    assert await served.check(b"broker-a") == b""
    assert served.reports.refused == 1


async def test_of_too_many_slow_peers_the_first_is_closed(served, monkeypatch):
    monkeypatch.setattr(role_check_port, "WAITING_MAX", 3)
    slow = []
    for _ in range(5):
        slow.append(await served.connect())
        slow[-1][1].write(b"broker-a")
        await asyncio.sleep(0.02)
    for reader, _ in slow[:2]:
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
    for reader, writer in slow[2:]:
        writer.write(b"/1\n")
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b"up ready #epoch 3\n"
    for _, writer in slow:
        writer.close()


async def test_many_checks_at_once_are_all_answered(served):
    answers = await asyncio.gather(*(served.check(b"broker-a/1\n") for _ in range(300)))
    assert set(answers) == {b"up ready #epoch 3\n"}


async def test_port_that_is_closed_closes_its_peers(served):
    reader, writer = await served.connect()
    writer.write(b"broker-a")
    await asyncio.sleep(0.05)
    served.port.close()
    assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
    writer.close()
    with pytest.raises(ConnectionError):
        await served.connect()
    served.port.close()


async def test_port_in_use_is_refused(served):
    other = RoleCheckPort(ANSWERS.get, lambda: True, served.reports.record, served.reports.emit)
    with pytest.raises(BindError, match=f"cannot listen on {HOST}:{served.number}"):
        other.listen(HOST, served.number)


async def test_connections_are_taken_again_after_there_were_no_files(served, monkeypatch):
    monkeypatch.setattr(role_check_port, "_ACCEPT_AGAIN_S", 0.05)
    listener, accepted = served.port._listener, []

    class OutOfFiles:
        """The listener of a process that has no files left, once."""

        def fileno(self):
            return listener.fileno()

        def accept(self):
            if not accepted:
                accepted.append(1)
                raise OSError(24, "Too many open files")
            return listener.accept()

        def close(self):
            listener.close()

    loop = asyncio.get_running_loop()
    loop.remove_reader(listener)
    served.port._listener = OutOfFiles()
    loop.add_reader(served.port._listener, served.port._accept)
    assert await served.check(b"broker-a/1\n") == b"up ready #epoch 3\n"
    assert accepted


async def eventually(holds):
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_host_that_checks_is_recorded_with_what_it_was_answered(served):
    await served.check(b"broker-a/2\n")
    await served.check(b"leader\n")
    assert served.reports.hosts == [(BrokerKey("broker-a", 2), HOST, RoleAnswer(RoleVerdict.SUPERSEDED, 3))]
