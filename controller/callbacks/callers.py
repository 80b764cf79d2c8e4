"""Calls for a change of a master: runs a program, or posts to a URL, within a time limit.

Programs run in threads: `subprocess` starts a program by vfork, which takes 1 ms however much memory a controller has.
What asyncio does with uvloop copies the page tables, in the event loop: 170 ms at 300 MiB.
"""

import asyncio
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from threading import Event
from typing import IO, TYPE_CHECKING, Final

from controller.callbacks.role_callback import OUTPUT_BYTES_MAX, CallOutcome, CallResult, RoleCallback, output_text
from remoting.clock import Clock

if TYPE_CHECKING:
    import aiohttp

#: How often it is looked at whether a call was given up.
_LOOK_S: Final = 0.05
#: How long a killed program may take to end; the kernel may hold one that waits for a disk.
_KILLED_S: Final = 2.0
_READ_BYTES: Final = 16_384
#: As any shell has it: the server's own lets nobody else read what a program writes.
_UMASK: Final = 0o022


class ProgramCaller:
    """Calls a program, never by a shell."""

    def __init__(self, arguments: tuple[str, ...], executor: Executor, hidden_prefix: str, clock: Clock) -> None:
        """Take the program with its arguments, what runs it, and the prefix of variables that it does not get."""
        self._arguments, self._clock, self._executor = arguments, clock, executor
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden_prefix)}

    @property
    def problem(self) -> str:
        """Why the program cannot be run at present; blank if it can."""
        path = Path(self._arguments[0])
        if not path.is_file():
            return f"there is no program {path}"
        return "" if os.access(path, os.X_OK) else f"{path} cannot be executed by this user: chmod +x"

    async def call(self, callback: RoleCallback, timeout_s: float) -> CallOutcome:
        """Run the program once; if this is cancelled, the program is killed."""
        given_up = Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, self._run, callback, timeout_s, given_up)
        finally:
            given_up.set()

    async def close(self) -> None:
        self._executor.shutdown(wait=False)

    def _run(self, callback: RoleCallback, timeout_s: float, given_up: Event) -> CallOutcome:
        """Run the program in this thread until it ends, its time is over or it is `given_up`."""
        if given_up.is_set():
            return CallOutcome(CallResult.FAILED, "it was given up")
        try:
            program = self._started({**self._environment, **callback.variables()})
        except OSError as error:
            return CallOutcome(CallResult.FAILED, f"{self._arguments[0]} was not started: {error.strerror or error}")
        try:
            return _RunningProgram(program, timeout_s, given_up, self._clock).outcome(callback.body())
        finally:
            _end(program)

    def _started(self, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        # A session of its own is a process group of its own, which is killed as a whole.
        return subprocess.Popen(  # noqa: S603  # the operator's own program, and no shell
            self._arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",
            umask=_UMASK,
            start_new_session=True,
        )


class _RunningProgram:
    def __init__(self, program: "subprocess.Popen[bytes]", timeout_s: float, given_up: Event, clock: Clock) -> None:
        self._program, self._timeout_s, self._clock = program, timeout_s, clock
        self._ends_ms = clock.now_ms() + round(timeout_s * 1000)
        self._given_up = given_up
        self._output = bytearray()

    def outcome(self, body: bytes) -> CallOutcome:
        """Return how it ended; a program that is still there then is left to the caller."""
        stdin, stdout = self._program.stdin, self._program.stdout
        assert stdin is not None, "it is a pipe"
        assert stdout is not None, "it is a pipe"
        # A pipe takes it at once. Programs that read nothing are no failures.
        with suppress(BrokenPipeError):
            os.write(stdin.fileno(), body)
        with suppress(BrokenPipeError):
            stdin.close()
        status = self._status(stdout)
        output = output_text(bytes(self._output))
        if status is None:
            if self._given_up.is_set():
                return CallOutcome(CallResult.FAILED, "it was given up", output)
            return CallOutcome(CallResult.TIMEOUT, f"it was killed after {self._timeout_s:g} s", output)
        if status == 0:
            return CallOutcome(CallResult.DELIVERED, "", output)
        how = f"signal {-status} ended it" if status < 0 else f"it ended with status {status}"
        return CallOutcome(CallResult.FAILED, how, output)

    def _status(self, stdout: IO[bytes]) -> int | None:
        """Read what it prints until it ends, and return its status; None if its time was over before."""
        os.set_blocking(stdout.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while self._may_run:
                if selector.select(_LOOK_S) and not self._read(stdout):
                    return self._ended()
                if self._program.poll() is not None:
                    # What it started in the background may hold its output open for ever.
                    while self._read(stdout):
                        pass
                    return self._program.returncode
        return None

    def _read(self, stdout: IO[bytes]) -> bool:
        """Take some output, as much of it as is kept; False if there is none at present, or none more."""
        with suppress(BlockingIOError):
            data = os.read(stdout.fileno(), _READ_BYTES)
            self._output += data[: max(0, OUTPUT_BYTES_MAX - len(self._output))]
            return bool(data)
        return False

    def _ended(self) -> int | None:
        while self._may_run:
            with suppress(subprocess.TimeoutExpired):
                return self._program.wait(_LOOK_S)
        return None

    @property
    def _may_run(self) -> bool:
        return not self._given_up.is_set() and self._clock.now_ms() < self._ends_ms


def _end(program: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of a program and of what it started, and let go of its pipes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        program.wait(_KILLED_S)
    for pipe in (program.stdin, program.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


#: The longest token, in bytes: a wrong file must not fill the memory.
TOKEN_BYTES_MAX: Final = 4_096


class TokenUnusable(Exception):
    """The file of the token cannot be read, or holds none; the text says why, never what it holds."""


class WebhookCaller:
    """Calls a URL. Proxies of the environment and redirections are not followed."""

    def __init__(self, url: str, token_path: str) -> None:
        """Take where to post, and the file with the token of the receiver; blank for none."""
        self._url, self._token_path = url, token_path
        self._session: aiohttp.ClientSession | None = None

    @property
    def problem(self) -> str:
        try:
            token_in(self._token_path)
        except TokenUnusable as error:
            return str(error)
        return ""

    async def call(self, callback: RoleCallback, timeout_s: float) -> CallOutcome:
        import aiohttp  # noqa: PLC0415  # slow to import, and not needed by a controller without a URL

        try:
            async with asyncio.timeout(timeout_s):
                return await self._posted(callback)
        except TimeoutError:
            return CallOutcome(CallResult.TIMEOUT, f"no answer came within {timeout_s:g} s")
        except TokenUnusable as error:
            return CallOutcome(CallResult.FAILED, str(error))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return CallOutcome(CallResult.FAILED, f"{type(error).__name__}: {error}"[:OUTPUT_BYTES_MAX])

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _posted(self, callback: RoleCallback) -> CallOutcome:
        # Read at each call, so that a new token needs no restart.
        token = await asyncio.to_thread(token_in, self._token_path)
        headers = {"Content-Type": "application/json", "Idempotency-Key": _header_text(callback.key)}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        session = await self._opened()
        async with session.post(self._url, data=callback.body(), headers=headers, allow_redirects=False) as response:
            output = output_text(await _beginning(response.content))
            if response.status // 100 == HTTPStatus.OK // 100:
                return CallOutcome(CallResult.DELIVERED, "", output)
            return CallOutcome(CallResult.FAILED, f"it was answered {response.status}", output)

    async def _opened(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp  # noqa: PLC0415  # as above

            # As many connections as there are calls; none stays open for a call that comes in weeks.
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=None), trust_env=False
            )
        return self._session


async def _beginning(content: "aiohttp.StreamReader") -> bytes:
    """Return the first bytes of an answer; the rest is not read."""
    data = b""
    while len(data) < OUTPUT_BYTES_MAX and (more := await content.read(OUTPUT_BYTES_MAX - len(data))):
        data += more
    return data


def token_in(path: str) -> str:
    """Return the first line of a file, without blanks around it; blank without a path. Raises TokenUnusable."""
    if not path:
        return ""
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(TOKEN_BYTES_MAX + 1)
    except OSError as error:
        raise TokenUnusable(f"onRoleChangeTokenFile: {path} cannot be read: {error.strerror or error}") from None
    line = data[:TOKEN_BYTES_MAX].split(b"\n")[0].strip().decode(errors="replace")
    if not line or not (line.isascii() and line.isprintable()) or " " in line:
        raise TokenUnusable(
            f"onRoleChangeTokenFile: the first line of {path} must be a token of printable ASCII characters without "
            "blanks"
        )
    return line


def _header_text(text: str) -> str:
    """Return a text as a header can have it: printable ASCII; anything else is escaped, as brokers choose names."""
    return text.encode("unicode_escape").decode()
