"""What this server has recorded, over HTTP: routes of the past, when they changed, and what happened to a broker."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from remoting.clock import SystemClock
from remoting.protocol.shapes.history import PastLife, PastQuery, PastRouteChanges, PastRoutes, nothing_known
from serving.config.server_config import ServerConfig
from serving.http.paths import Parameter, get
from serving.http.views import HttpRefused, Places, Unavailable, ViewRequest, requested_number

#: Queries that are worked on at a time, and those that wait; others are answered 429.
RUNNING_MAX: Final = 2
WAITING_MAX: Final = 16
#: Seconds after which a query is given up.
ANSWER_S: Final = 20

#: By its name: `history.past` knows the servers' tables, so no server imports it. Not from the working directory.
_COMMAND: Final = (sys.executable, "-P", "-m", "history.past.answers")


class HistoryReader:
    """Has `history.past` answer queries about the past, a few at a time, each in a process of its own.

    The loop that serves brokers and clients reads no files, and what a process has read is gone from memory with it.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(RUNNING_MAX)
        self._waiting = Places(WAITING_MAX, f"{WAITING_MAX} requests about the history wait, which is the limit.")

    async def answer(self, query: PastQuery) -> bytes:
        """Return the answer as JSON; raises HttpRefused. The process is killed if this is cancelled."""
        if not query.folder:
            return msgspec.json.encode(nothing_known(query, "This server records no history: historyDir is blank."))
        with self._waiting.one():
            await self._turns.acquire()
        reading = _HistoryProcess()
        try:
            output, code = await asyncio.to_thread(reading.run, msgspec.json.encode(query))
        except OSError as error:
            raise Unavailable(f"The history cannot be read: {error.strerror}.") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(f"The history was not read within {ANSWER_S} s: request a shorter period.") from None
        finally:
            reading.give_up()
            self._turns.release()
        if code != 0:
            raise Unavailable("The history cannot be read; the standard error of this server has more.")
        return output


class _HistoryProcess:
    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._is_given_up = False

    def run(self, body: bytes) -> tuple[bytes, int]:
        """Return what it prints, and its exit code; in a thread. Raises OSError and TimeoutExpired.

        `subprocess` starts it by vfork; what asyncio does with uvloop would copy the page tables in the event loop.
        """
        with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/") as program:  # noqa: S603
            self._program = program
            try:
                if self._is_given_up:
                    program.kill()
                return program.communicate(body, ANSWER_S)[0], program.returncode
            except subprocess.TimeoutExpired:
                program.kill()
                raise

    def give_up(self) -> None:
        self._is_given_up = True
        if self._program is not None:
            self._program.kill()


_HOUR_MS: Final = 3_600_000
#: The longest time of one request: files of the history are kept no longer by default.
SPAN_MS_MAX: Final = 31 * 24 * _HOUR_MS
#: The year 9999: whatever is added to it stays a time.
_UNIX_MS_MAX: Final = 253_000_000_000_000
_BROKER_ID_MAX: Final = 2**31 - 1

_TOPIC: Final = Parameter("topic", "Name of the topic; must be given.")
_UNIX_MS: Final = {"type": "integer", "minimum": 0, "maximum": _UNIX_MS_MAX}
_SPAN: Final = (
    Parameter("from", "Unix ms; an hour before `to` by default.", _UNIX_MS),
    Parameter("to", "Unix ms, at most 31 days after `from`; now by default.", _UNIX_MS),
)


class PastRouteViews:
    """Routes of the past; a process of its own reads the files of historyDir for each request."""

    def __init__(self, history: HistoryReader, config: Callable[[], ServerConfig]) -> None:
        self._history = history
        self._config = config

    @get(
        "/v1/history/route",
        answer=PastRoutes,
        parameters=(_TOPIC, Parameter("at", "Unix ms; now by default.", _UNIX_MS)),
        refusals=(400, 429, 503),
        waits=True,
    )
    async def past_routes(self, request: ViewRequest) -> bytes:
        """The route of a topic at a moment, as `rmq history route` shows it, at each NameServer in the history."""
        at_ms = requested_number(request, "at", _UNIX_MS_MAX, SystemClock().unix_ms())
        folder = self._config().history_dir
        query = PastQuery(kind="route", folder=folder, name=_name(request, "topic"), first_ms=at_ms, last_ms=at_ms)
        return await self._history.answer(query)

    @get(
        "/v1/history/route-changes",
        answer=PastRouteChanges,
        parameters=(_TOPIC, *_SPAN),
        refusals=(400, 429, 503),
        waits=True,
    )
    async def past_route_changes(self, request: ViewRequest) -> bytes:
        """The last 1,000 changes of a topic's route in a period."""
        first_ms, last_ms = _span(request)
        folder, topic = self._config().history_dir, _name(request, "topic")
        query = PastQuery(kind="route-changes", folder=folder, name=topic, first_ms=first_ms, last_ms=last_ms)
        return await self._history.answer(query)


class PastLifeViews:
    """What happened to brokers, read in the same way."""

    def __init__(self, history: HistoryReader, config: Callable[[], ServerConfig]) -> None:
        self._history = history
        self._config = config

    @get(
        "/v1/history/broker",
        answer=PastLife,
        parameters=(
            Parameter("broker", "The brokerName; must be given."),
            Parameter("brokerId", "Broker id for the registrations; 0 by default.", {"type": "integer", "minimum": 0}),
            *_SPAN,
        ),
        refusals=(400, 429, 503),
        waits=True,
        has_details=True,
    )
    async def past_life(self, request: ViewRequest) -> bytes:
        """The events of a broker set, as `rmq history timeline` shows them, and the registrations of one broker."""
        first_ms, last_ms = _span(request)
        query = PastQuery(
            kind="timeline",
            folder=self._config().history_dir,
            name=_name(request, "broker"),
            first_ms=first_ms,
            last_ms=last_ms,
            broker_id=requested_number(request, "brokerId", _BROKER_ID_MAX),
            with_details=request.sees_details,
        )
        return await self._history.answer(query)


def _name(request: ViewRequest, parameter: str) -> str:
    if not (name := request.query.get(parameter, "")):
        raise HttpRefused(f"{parameter} must be given.")
    return name


def _span(request: ViewRequest) -> tuple[int, int]:
    last_ms = requested_number(request, "to", _UNIX_MS_MAX, SystemClock().unix_ms())
    first_ms = requested_number(request, "from", _UNIX_MS_MAX, max(0, last_ms - _HOUR_MS))
    if not 0 <= last_ms - first_ms <= SPAN_MS_MAX:
        raise HttpRefused("from must be before to, by at most 31 days; both are Unix ms.")
    return first_ms, last_ms
