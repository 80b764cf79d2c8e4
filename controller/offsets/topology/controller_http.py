"""Requests the masters of a controller over HTTP: one request, one answer, within a time and a size. The edge."""

import asyncio
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from controller.offsets.topology.answers import ANSWER_BYTES_MAX, AnswerUnreadable, MastersAnswer, decode_answer

if TYPE_CHECKING:
    import aiohttp

#: How long an answer may take beyond the wait that it was requested with.
ANSWER_S: Final = 1.5
#: A host that is off answers no connection: the others are not to wait for it.
CONNECT_S: Final = 1.0
#: Reading a longer answer would hold up everything else in the event loop for milliseconds.
THREAD_BYTES: Final = 256 * 1024
#: The beginning of a refusal; its reason stands there.
_REFUSAL_BYTES_MAX: Final = 4_096
_REASON_CHARACTERS_MAX: Final = 300


class NotLeading(Exception):
    """Another controller leads, or none does, or this one does not serve now; the text says what, for people."""


class ControllerFailed(Exception):
    """A controller does not answer, or not as a controller; the text says why, for people."""


class _Fault(msgspec.Struct, frozen=True):
    message: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _Fault = _Fault()


class ControllerHttp:
    """A session with all controllers. Proxies of the environment and redirections are not followed."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        import aiohttp  # noqa: PLC0415  # slow to import: whoever starts serves first

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            trust_env=False,
            # Few bytes may be many once they are decompressed.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def masters(self, url: str, after: str, wait_ms: int) -> MastersAnswer:
        """Return what the controller at a URL answers, at once or within `wait_ms` when something changes.

        `after` is the revision of an earlier answer, blank for all sets. Raises NotLeading and ControllerFailed.
        """
        import aiohttp  # noqa: PLC0415  # as above

        within_s = wait_ms / 1000 + ANSWER_S
        try:
            async with asyncio.timeout(within_s):
                text = await self._body(url, after, wait_ms)
        except TimeoutError:
            raise ControllerFailed(f"no whole answer came within {within_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ControllerFailed(f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS_MAX]) from None
        try:
            if len(text) < THREAD_BYTES:
                return decode_answer(text)
            return await asyncio.to_thread(decode_answer, text)
        except AnswerUnreadable as error:
            raise ControllerFailed(f"it answers something else: {error}"[:_REASON_CHARACTERS_MAX]) from None

    async def _body(self, url: str, after: str, wait_ms: int) -> bytes:
        assert self._session is not None, "it is used as a context"
        query = {"after": after, "waitMs": str(wait_ms)} if after else {}
        async with self._session.get(f"{url}/v1/masters", params=query, allow_redirects=False) as response:
            if response.status == HTTPStatus.OK:
                return await _limited(response.content, ANSWER_BYTES_MAX)
            reason = _reason_in(await response.content.read(_REFUSAL_BYTES_MAX))
            is_away = response.status in {HTTPStatus.CONFLICT, HTTPStatus.SERVICE_UNAVAILABLE}
            failure = NotLeading if is_away else ControllerFailed
            raise failure(f"it answers {response.status}{reason}"[:_REASON_CHARACTERS_MAX])


async def _limited(content: "aiohttp.StreamReader", bytes_max: int) -> bytes:
    body = bytearray()
    async for part in content.iter_any():
        body += part
        if len(body) > bytes_max:
            raise ControllerFailed(f"its answer is longer than {bytes_max} bytes")
    return bytes(body)


def _reason_in(text: bytes) -> str:
    try:
        message = msgspec.json.decode(text, type=_Refusal).error.message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return f": {message}" if message else ""
