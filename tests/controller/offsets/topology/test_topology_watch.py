"""The masters are followed at whoever leads: over real HTTP, with controllers that refuse, hang, are gone or odd."""

import asyncio
import contextlib
import socket

import pytest
from aiohttp import web
from fakes.clock import FakeClock
from topology_builders import GROUP, SET, a_master, answer_fields, answer_text, followed, set_fields

from controller.offsets.topology import controller_http, leader_search, watch
from controller.offsets.topology.controller_http import ControllerFailed, ControllerHttp, NotLeading
from controller.offsets.topology.masters import Masters, OutdatedSet
from controller.offsets.topology.values import MasterChangeKind
from controller.offsets.topology.watch import ControllerWatch, WatchParts


class AnsweringController:
    """An HTTP server that answers `/v1/masters` with what `answer(query)` returns or waits for."""

    def __init__(self):
        self.requests = []
        self.answer = None
        self.changed = asyncio.Event()

    async def open(self):
        app = web.Application()
        app.router.add_get("/v1/masters", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        await web.SockSite(self._runner, listener).start()
        return self

    async def close(self):
        self.changed.set()
        await self._runner.cleanup()

    async def _serve(self, request):
        self.requests.append(dict(request.query))
        return await self.answer(request.query)

    # What it may answer

    def refuse(self, status=409, **values):
        async def answer(_):
            return web.json_response(
                {"error": {"code": "conflict", "message": "Another one leads."}} | values, status=status
            )

        self.answer = answer

    def lead(self, *sets, run="run"):
        """Answer these sets, then wait for `change`."""
        self.sets, self.run, self.number = list(sets), run, 1

        async def answer(query):
            if query.get("after") == f"{self.run}:{self.number}":
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), int(query["waitMs"]) / 1000)
            return web.json_response(answer_fields(*self.sets, revision=f"{self.run}:{self.number}"))

        self.answer = answer

    def change(self, *sets):
        self.sets, self.number = list(sets), self.number + 1
        self.changed.set()

    def write(self, body, **values):
        async def answer(_):
            return web.Response(body=body, **values)

        self.answer = answer

    def hang(self):
        async def answer(_):
            await asyncio.sleep(30)

        self.answer = answer


class Recorder:
    """Listens and observes."""

    def __init__(self):
        self.changes, self.leaders, self.unusable, self.outdated = [], [], [], []

    def masters_changed(self, changes):
        self.changes += changes

    def leader_followed(self, url):
        self.leaders.append(url)

    def controller_unusable(self, url, problem):
        self.unusable.append((url, problem))

    def sets_outdated(self, url, outdated):
        self.outdated.append((url, *outdated))

    @property
    def kinds(self):
        return [each.kind for each in self.changes]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(watch, "WAIT_MS", 300)
    # Whoever answers is waited for, however busy the machine is.
    monkeypatch.setattr(controller_http, "ANSWER_S", 20)
    monkeypatch.setattr(controller_http, "CONNECT_S", 20)
    monkeypatch.setattr(leader_search, "PAUSES_MS", (20, 40))


@pytest.fixture
async def controllers():
    opened = [await AnsweringController().open() for _ in range(3)]
    for each in opened:
        each.refuse()
    yield opened
    for each in opened:
        await each.close()


@contextlib.asynccontextmanager
async def following(*urls, group=""):
    recorder = Recorder()
    recorder.clock = FakeClock()
    parts = WatchParts(ControllerHttp(), Masters(), recorder, recorder, recorder.clock)
    recorder.watch = ControllerWatch(urls, parts, group=group)
    task = asyncio.create_task(recorder.watch.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def urls_of(controllers):
    return [each.url for each in controllers]


async def test_leader_is_found_among_the_controllers_and_its_sets_are_known(controllers):
    controllers[2].lead(set_fields())
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: followed_by.changes)
        (change,) = followed_by.changes
        assert (change.kind, change.after) == (MasterChangeKind.FOUND, a_master())
        assert followed_by.watch.masters.sets == {SET: followed()}
        assert followed_by.leaders == [controllers[2].url]
        assert followed_by.unusable == []


async def test_change_is_taken_when_it_happens(controllers):
    controllers[0].lead(set_fields())
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: len(controllers[0].requests) == 2)
        assert controllers[0].requests == [{}, {"after": "run:1", "waitMs": "300"}]
        controllers[0].change(set_fields(2, 6))
        await until(lambda: len(followed_by.changes) == 2)
        assert followed_by.changes[1].after == a_master(2, 6)


async def test_next_leader_is_found_where_the_one_before_refuses_or_is_gone(controllers):
    controllers[0].lead(set_fields())
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: followed_by.leaders == [controllers[0].url])
        controllers[1].lead(set_fields(2, 6), run="second")
        controllers[0].refuse(503)
        controllers[0].changed.set()
        await until(lambda: len(followed_by.leaders) == 2)
        controllers[2].lead(set_fields(3, 7), run="third")
        await controllers[1].close()
        await until(lambda: len(followed_by.leaders) == 3)
        assert followed_by.leaders == urls_of(controllers)
        assert [each.after.broker_id for each in followed_by.changes] == [1, 2, 3]


async def test_leader_that_hangs_is_left_when_its_answer_is_due(controllers, monkeypatch):
    monkeypatch.setattr(controller_http, "ANSWER_S", 1.0)
    controllers[0].hang()
    controllers[1].lead(set_fields())
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: followed_by.changes)
        assert followed_by.leaders == [controllers[1].url]
        assert (controllers[0].url, "no whole answer came within 1.3 s") in followed_by.unusable


async def test_late_answer_of_an_earlier_leader_changes_nothing(controllers):
    controllers[0].lead(set_fields(2, 6))
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: followed_by.changes)
        controllers[1].lead(set_fields(1, 5), run="late")
        controllers[0].refuse()
        controllers[0].changed.set()
        await until(lambda: followed_by.outdated)
        assert followed_by.outdated == [(controllers[1].url, OutdatedSet(SET, 6, 5))]
        assert followed_by.kinds == [MasterChangeKind.FOUND]
        assert followed_by.watch.masters.sets[SET].master == a_master(2, 6)
        assert not followed_by.watch.is_master(a_master(2, 6))
        controllers[1].change(set_fields(2, 6))
        await until(lambda: followed_by.watch.is_master(a_master(2, 6)))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"<html>", "it answers something else: "),
        (b'{"revision":"r"}', "it answers something else: "),
        (b"", "it answers something else: "),
    ],
)
async def test_controller_that_answers_something_else_is_named_once_and_others_are_followed(controllers, body, problem):
    controllers[0].write(body)
    async with following(controllers[0].url, controllers[1].url) as followed_by:
        await until(lambda: len(controllers[0].requests) > 3)
        (named,) = (each for url, each in followed_by.unusable if url == controllers[0].url)
        assert named.startswith(problem)
        controllers[1].lead(set_fields())
        await until(lambda: followed_by.changes)


async def test_what_is_known_stays_while_no_controller_leads(controllers):
    controllers[0].lead(set_fields())
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: followed_by.changes)
        answered_ms = followed_by.watch.answered_ms
        controllers[0].refuse()
        controllers[0].changed.set()
        count = len(controllers[0].requests)
        await until(lambda: len(controllers[0].requests) > count + 3)
        assert followed_by.kinds == [MasterChangeKind.FOUND]
        assert followed_by.watch.masters.is_master(a_master())
        assert followed_by.watch.answered_ms == answered_ms


async def test_nobody_is_known_to_be_master_once_no_leader_has_answered_for_a_while(controllers):
    controllers[0].lead(set_fields())
    async with following(*urls_of(controllers)) as followed_by:
        assert not followed_by.watch.is_master(a_master())
        await until(lambda: followed_by.changes)
        assert followed_by.watch.is_master(a_master())
        assert not followed_by.watch.is_master(a_master(1, 6))
        controllers[0].refuse()
        controllers[0].changed.set()
        count = len(controllers[0].requests)
        await until(lambda: len(controllers[0].requests) > count + 1)
        followed_by.clock.pass_ms(watch.FRESH_MS)
        assert followed_by.watch.is_master(a_master())
        followed_by.clock.pass_ms(1)
        assert not followed_by.watch.is_master(a_master())


async def test_controller_that_answers_without_a_wait_is_not_requested_in_a_busy_loop(controllers, monkeypatch):
    monkeypatch.setattr(watch, "EARLY_PAUSE_S", 30)
    controllers[0].write(answer_text(revision="r"))
    async with following(controllers[0].url):
        await until(lambda: len(controllers[0].requests) == 2)
        await asyncio.sleep(0.3)
        assert len(controllers[0].requests) == 2


async def test_where_all_places_for_waits_are_taken_the_leader_answers_without_a_wait(controllers):
    controllers[0].lead(set_fields())
    lead = controllers[0].answer

    async def answer(query):
        return web.Response(status=503) if query.get("waitMs", "0") != "0" else await lead(query)

    controllers[0].answer = answer
    async with following(controllers[0].url) as followed_by:
        await until(lambda: followed_by.changes)
        await until(lambda: {"after": "run:1", "waitMs": "0"} in controllers[0].requests)
        controllers[0].change(set_fields(2, 6))
        await until(lambda: len(followed_by.changes) == 2)


# One request


async def masters(url, wait_ms=100):
    async with ControllerHttp() as source:
        return await source.masters(url, "", wait_ms)


@pytest.mark.parametrize("status", [409, 503])
async def test_follower_and_controller_that_stops_do_not_lead(controllers, status):
    controllers[0].refuse(status)
    with pytest.raises(NotLeading, match=f"it answers {status}: Another one leads."):
        await masters(controllers[0].url)


async def test_why_nobody_leads_is_reported_after_a_round_in_vain(controllers):
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: len(followed_by.unusable) == 3)
        assert set(followed_by.unusable) == {
            (url, "it answers 409: Another one leads.") for url in urls_of(controllers)
        }


async def test_controllers_of_another_group_remove_no_set(controllers):
    controllers[0].lead(set_fields())
    controllers[1].write(answer_text(controllerGroup="elsewhere", revision="r"))
    async with following(*urls_of(controllers)) as followed_by:
        await until(lambda: followed_by.changes)
        controllers[0].refuse()
        controllers[0].changed.set()
        await until(lambda: followed_by.unusable)
        problem = "it belongs to the controllerGroup elsewhere, and g is followed: correct its URL"
        assert (controllers[1].url, problem) in followed_by.unusable
        assert followed_by.kinds == [MasterChangeKind.FOUND]


async def test_configured_group_is_followed_whoever_answers_first(controllers):
    controllers[0].write(answer_text(controllerGroup="elsewhere", revision="r"))
    controllers[1].lead(set_fields())
    async with following(*urls_of(controllers), group=GROUP) as followed_by:
        await until(lambda: followed_by.changes)
        assert followed_by.leaders == [controllers[1].url]


@pytest.mark.parametrize(
    ("status", "values", "problem"),
    [
        (404, {}, "it answers 404: Another one leads."),
        (400, {"error": 1}, "it answers 400"),
        (500, {"error": {"message": "m" * 2_000}}, "it answers 500: mmm"),
        (204, {}, "it answers 204"),
        (302, {}, "it answers 302: Another one leads."),
    ],
)
async def test_other_refusals_are_named_with_their_reason(controllers, status, values, problem):
    controllers[0].refuse(status, **values)
    with pytest.raises(ControllerFailed) as raised:
        await masters(controllers[0].url)
    assert str(raised.value).startswith(problem)
    assert len(str(raised.value)) <= 300


async def test_answer_that_is_too_long_is_not_read_to_its_end(controllers, monkeypatch):
    monkeypatch.setattr(controller_http, "ANSWER_BYTES_MAX", 1_000)
    controllers[0].write(b" " * 1_000_000)
    with pytest.raises(ControllerFailed, match="its answer is longer than 1000 bytes"):
        await masters(controllers[0].url)


async def test_long_answer_is_read_in_a_thread(controllers, monkeypatch):
    monkeypatch.setattr(controller_http, "THREAD_BYTES", 1)
    controllers[0].lead(set_fields())
    assert (await masters(controllers[0].url)).sets == (followed(),)


async def test_redirection_is_not_followed(controllers):
    controllers[0].write(b"", status=307, headers={"Location": f"{controllers[1].url}/v1/masters"})
    with pytest.raises(ControllerFailed, match="it answers 307"):
        await masters(controllers[0].url)
    assert controllers[1].requests == []


@contextlib.asynccontextmanager
async def answered_by(write):
    """Serve connections with a function of their writers on a free port, and return the URL; leaves none open."""
    tasks = set()

    async def serve(_, writer):
        tasks.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await write(writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_port_that_nobody_listens_at_is_named():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ControllerFailed, match="ClientConnectorError"):
        await masters(f"http://127.0.0.1:{port}")


async def test_bytes_that_are_no_http_are_no_answer():
    async def other(writer):
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        await asyncio.sleep(30)

    async with answered_by(other) as url:
        with pytest.raises(ControllerFailed):
            await masters(url)


async def test_answer_that_comes_byte_by_byte_is_ended(monkeypatch):
    monkeypatch.setattr(controller_http, "ANSWER_S", 1.0)

    async def drip(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(900):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with answered_by(drip) as url:
        with pytest.raises(ControllerFailed, match=r"no whole answer came within 1\.1 s"):
            await masters(url)
