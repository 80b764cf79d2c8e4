"""Posts callbacks to a URL: JSON, with a time limit; 2xx is delivered, anything else is not."""

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.callbacks.outcome import OUTPUT_BYTES_MAX, CallOutcome, CallResult, output_text
from controller.callbacks.role_callback import RoleCallback

if TYPE_CHECKING:
    import aiohttp

#: The longest token, in bytes: a wrong file must not fill the memory.
TOKEN_BYTES_MAX: Final = 4_096


class TokenUnusable(Exception):
    """The file of the token cannot be read, or holds none; the text says why, never what it holds."""


class WebhookCaller:
    """Calls a URL. Proxies of the environment and redirections are not followed."""

    def __init__(self, url: str, token_path: str) -> None:
        """Take where to post, and the file with the token of the receiver; blank for none."""
        self._url = url
        self._token_path = token_path
        self._session: aiohttp.ClientSession | None = None

    @property
    def problem(self) -> str:
        """Why nothing can be called at present; blank if something can."""
        try:
            token_in(self._token_path)
        except TokenUnusable as error:
            return str(error)
        return ""

    async def call(self, callback: RoleCallback, timeout_s: float) -> CallOutcome:
        """Post a callback once."""
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
        """Close connections."""
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
