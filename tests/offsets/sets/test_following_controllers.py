"""The masters are followed at the controller that leads, over real HTTP: others refuse, hang or answer odd things."""

import asyncio
import contextlib
import socket

import pytest
from aiohttp import web
from fakes.clock import FakeClock
from set_builders import SET, a_master, a_set, answer_fields, set_fields

from offsets.sets import by_controllers
from offsets.sets.by_controllers import ControllerFollowed, ControllerFollowing, ControllerUnusable, MastersOutdated
from offsets.sets.followed import MasterChangeKind
from offsets.sets.following import FRESH_MS, MasterChanged


class AnsweringController:
    """An HTTP server that answers `/v1/masters` with what `answer(query)` returns or waits for."""

    def __init__(self):
        self.requests = []
        self.changed = asyncio.Event()
        self.refuse()

    async def open(self):
        app = web.Application()
        app.router.add_get("/v1/masters", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.url = f"http://{self.address}"
        await web.SockSite(self._runner, listener).start()
        return self

    async def close(self):
        self.changed.set()
        await self._runner.cleanup()

    async def _serve(self, request):
        self.requests.append(dict(request.query))
        return await self.answer(request.query)

    def write(self, body=b"", **values):
        async def answer(_):
            return web.Response(body=body, **values)

        self.answer = answer
        self.changed.set()

    def refuse(self, status=409, message="Another one leads."):
        self.write(b'{"error":{"message":"%s"}}' % message.encode(), status=status)

    def hang(self):
        async def answer(_):
            await asyncio.sleep(30)

        self.answer = answer

    def lead(self, *sets, run="run", **fields):
        """Answer these sets, then wait for a change."""
        self.sets, self.run, self.number = list(sets), run, 1

        async def answer(query):
            if query.get("after") == f"{self.run}:{self.number}":
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), int(query["waitMs"]) / 1000)
            return web.json_response(answer_fields(*self.sets, revision=f"{self.run}:{self.number}") | fields)

        self.answer = answer

    def change(self, *sets):
        self.sets, self.number = list(sets), self.number + 1
        self.changed.set()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(by_controllers, "WAIT_MS", 300)
    # However busy the machine is.
    monkeypatch.setattr(by_controllers, "ANSWER_S", 20)
    monkeypatch.setattr(by_controllers, "CONNECT_S", 20)
    monkeypatch.setattr(by_controllers, "SEARCH_PAUSES_S", (0.02, 0.04))


@pytest.fixture
async def controllers():
    opened = [await AnsweringController().open() for _ in range(3)]
    yield opened
    for controller in opened:
        await controller.close()


@contextlib.asynccontextmanager
async def following(*controllers):
    clock, told, changes = FakeClock(), [], []
    following = ControllerFollowing([controller.address for controller in controllers], clock, told.append)
    following.listeners.append(changes.append)
    following.clock, following.told, following.changes = clock, told, changes
    task = asyncio.create_task(following.run())
    try:
        yield following
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def told(following, kind):
    return [event for event in following.told if isinstance(event, kind)]


def problems(following):
    return {event.url: event.error for event in told(following, ControllerUnusable)}


async def test_the_leader_is_found_and_its_sets_and_changes_come_at_once(controllers):
    controllers[2].lead(set_fields())
    async with following(*controllers) as follower:
        await until(lambda: follower.changes)
        assert follower.sets == {SET: a_set()}
        assert follower.is_master(a_master())
        assert told(follower, ControllerFollowed) == [ControllerFollowed(url=controllers[2].url)]
        assert told(follower, ControllerUnusable) == []
        await until(lambda: {"after": "run:1", "waitMs": "300"} in controllers[2].requests)
        controllers[2].change(set_fields(2, 6))
        await until(lambda: len(follower.changes) == 2)
        assert follower.changes[1].after == a_master(2, 6)
        assert [event.change.kind for event in told(follower, MasterChanged)] == ["found", "moved"]


async def test_the_next_leader_is_found_where_the_one_before_refuses_is_gone_or_hangs(controllers, monkeypatch):
    controllers[0].lead(set_fields())
    async with following(*controllers) as follower:
        await until(lambda: follower.changes)
        controllers[1].lead(set_fields(2, 6), run="second")
        controllers[0].refuse(503)
        await until(lambda: len(follower.changes) == 2)
        controllers[2].lead(set_fields(3, 7), run="third")
        await controllers[1].close()
        await until(lambda: len(follower.changes) == 3)
        monkeypatch.setattr(by_controllers, "ANSWER_S", 0.5)
        controllers[0].lead(set_fields(1, 8), run="fourth")
        controllers[2].hang()
        await until(lambda: len(follower.changes) == 4)
        assert [change.after.broker_id for change in follower.changes] == [1, 2, 3, 1]
        assert problems(follower)[controllers[2].url] == "no whole answer came within 0.8 s"


async def test_a_late_answer_of_an_earlier_leader_changes_nothing_and_leaves_the_master_in_doubt(controllers):
    controllers[0].lead(set_fields(2, 6))
    async with following(*controllers) as follower:
        await until(lambda: follower.changes)
        controllers[1].lead(set_fields(1, 5), run="late")
        controllers[0].refuse()
        await until(lambda: told(follower, MastersOutdated))
        late = MastersOutdated(url=controllers[1].url, sets=1, first=SET, epoch=5, known_epoch=6)
        assert told(follower, MastersOutdated) == [late]
        assert follower.sets[SET].master == a_master(2, 6)
        assert not follower.is_master(a_master(2, 6))
        controllers[1].change(set_fields(2, 6))
        await until(lambda: follower.is_master(a_master(2, 6)))


async def test_what_is_known_stays_while_no_controller_leads_and_counts_for_a_short_while(controllers):
    controllers[0].lead(set_fields())
    async with following(*controllers) as follower:
        await until(lambda: follower.changes)
        controllers[0].refuse()
        await until(lambda: len(problems(follower)) == 3)
        assert set(problems(follower).values()) == {"it answers 409: Another one leads."}
        follower.clock.pass_ms(FRESH_MS)
        assert follower.is_master(a_master())
        follower.clock.pass_ms(1)
        assert (follower.is_fresh(), follower.is_master(a_master())) == (False, False)
        assert [change.kind for change in follower.changes] == [MasterChangeKind.FOUND]
        # Once a minute for each.
        asked = len(controllers[0].requests)
        await until(lambda: len(controllers[0].requests) > asked + 3)
        assert len(told(follower, ControllerUnusable)) == 3
        follower.clock.pass_ms(60_000)
        await until(lambda: len(told(follower, ControllerUnusable)) == 6)


async def test_controllers_of_another_group_remove_no_set(controllers):
    controllers[0].lead(set_fields())
    async with following(*controllers) as follower:
        await until(lambda: follower.changes)
        controllers[1].lead(controllerGroup="elsewhere")
        controllers[0].refuse()
        await until(lambda: controllers[1].url in problems(follower))
        assert problems(follower)[controllers[1].url] == (
            "it belongs to the controllerGroup elsewhere, and g is followed: correct controllerHttpAddr"
        )
        assert len(follower.changes) == 1


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b"<html>", 200, "it answers something else: "),
        (b"", 200, "it answers something else: "),
        (b" " * 2_000, 200, "its answer is longer than 1000 bytes"),
        (b'{"error":{"message":"Another one leads."}}', 404, "it answers 404: Another one leads."),
        (b'{"error":1}', 400, "it answers 400"),
        (b'{"error":{"message":"%s"}}' % (b"m" * 2_000), 500, "it answers 500: mmm"),
        (b"", 204, "it answers 204"),
        (b"", 307, "it answers 307"),
    ],
)
async def test_a_controller_that_answers_something_else_is_named_and_others_are_followed(
    controllers, monkeypatch, body, status, problem
):
    monkeypatch.setattr(by_controllers, "ANSWER_BYTES_MAX", 1_000)
    controllers[0].write(body, status=status, headers={"Location": f"{controllers[2].url}/v1/masters"})
    controllers[1].lead(set_fields())
    async with following(controllers[0], controllers[1]) as follower:
        await until(lambda: follower.changes)
        assert problems(follower)[controllers[0].url].startswith(problem)
        assert len(problems(follower)[controllers[0].url]) <= 300
        assert controllers[2].requests == []


async def test_a_port_without_a_listener_and_bytes_that_are_no_http_are_named():
    async def speak(_, writer):
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    other = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    told = []
    follower = ControllerFollowing([nobody, other], FakeClock(), told.append)
    async with server, by_controllers._http_session() as session:
        for _ in range(2):
            await follower._look(session)
    assert "ClientConnectorError" in told[0].error
    assert told[1].url == f"http://{other}"


async def test_a_controller_that_answers_without_a_wait_is_not_asked_in_a_busy_loop(controllers, monkeypatch):
    monkeypatch.setattr(by_controllers, "EARLY_PAUSE_S", 30)
    controllers[0].lead(set_fields())
    lead = controllers[0].answer
    controllers[0].answer = lambda query: lead({})
    async with following(controllers[0]):
        await until(lambda: len(controllers[0].requests) == 2)
        await asyncio.sleep(0.3)
        assert len(controllers[0].requests) == 2


async def test_a_leader_without_a_free_place_for_waits_is_followed_without_them(controllers):
    controllers[0].lead(set_fields())
    lead = controllers[0].answer

    async def answer(query):
        return web.Response(status=503) if query.get("waitMs", "0") != "0" else await lead(query)

    controllers[0].answer = answer
    async with following(controllers[0]) as follower:
        await until(lambda: {"after": "run:1", "waitMs": "0"} in controllers[0].requests)
        controllers[0].change(set_fields(2, 6))
        await until(lambda: len(follower.changes) == 2)


async def test_a_long_answer_is_read_in_a_thread(controllers, monkeypatch):
    monkeypatch.setattr(by_controllers, "THREAD_BYTES", 1)
    controllers[0].lead(set_fields())
    async with following(controllers[0]) as follower:
        await until(lambda: follower.sets == {SET: a_set()})
