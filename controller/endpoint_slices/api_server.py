"""Reads and writes EndpointSlices at the API server of Kubernetes, as the pod's service account. The edge.

The token and the authorities are files that Kubernetes renews, so they are read for every round. Only `get`, `create`
and `update` of slices by their names are used: no list, no watch, no pods. Answers to no class of Java's.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.endpoint_slices.wanted import API_VERSION, EndpointSlice

if TYPE_CHECKING:
    import aiohttp

#: How long one call may take.
CALL_S: Final = 5.0
#: Connections at one time.
CONNECTIONS_MAX: Final = 4
#: etcd of Kubernetes stores 1.5 MiB at most; a longer answer is none of its.
ANSWER_BYTES_MAX: Final = 2 * 1024 * 1024
#: A wrong file must not fill the memory.
TOKEN_BYTES_MAX: Final = 64 * 1024
#: Characters of an error of the server that are logged.
ERROR_CHARS_MAX: Final = 300
TOKEN_FILE: Final = "token"  # noqa: S105  # the name of the file
CA_FILE: Final = "ca.crt"


class ApiFailed(Exception):
    """A call failed; the text says why, and never has the token."""


class SliceMoved(ApiFailed):
    """The slice is another one than was read, or was made meanwhile."""


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


class ApiServer:
    def __init__(self, host: str, port: int, credentials: Path) -> None:
        """`credentials` is the folder with `token` and `ca.crt`."""
        # Here and not at the first round: it takes up to a second, in which a leader could do nothing else.
        import aiohttp  # noqa: F401, PLC0415  # not needed by a controller outside of Kubernetes

        self._url = f"https://{f'[{host}]' if ':' in host else host}:{port}/apis/{API_VERSION}/namespaces"
        self._credentials = credentials

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["Slices"]:
        import aiohttp  # noqa: PLC0415  # it was loaded with this object

        token, context = await asyncio.to_thread(_credentials_in, self._credentials)
        connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX, ssl=context)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(total=CALL_S)
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout, trust_env=False
        ) as session:
            yield Slices(session, self._url)


class Slices:
    """EndpointSlices, for one round of calls. Every call may raise ApiFailed."""

    def __init__(self, session: "aiohttp.ClientSession", url: str) -> None:
        self._session, self._url = session, url

    async def read(self, namespace: str, name: str) -> EndpointSlice | None:
        status, data = await self._call("GET", f"{namespace}/endpointslices/{name}", None)
        if status == HTTPStatus.NOT_FOUND:
            return None
        _check(f"get EndpointSlice {name}", status, data)
        try:
            return msgspec.json.decode(data, type=EndpointSlice)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiFailed(f"get EndpointSlice {name}: the answer is no EndpointSlice: {error}") from None

    async def create(self, each: EndpointSlice) -> None:
        """Store a new one; raises SliceMoved if there is one of its name."""
        status, data = await self._call("POST", f"{each.metadata.namespace}/endpointslices", each)
        _check(f"create EndpointSlice {each.metadata.name}", status, data)

    async def update(self, each: EndpointSlice) -> None:
        """Store a changed one; raises SliceMoved if it was changed or removed since it was read."""
        name = each.metadata.name
        status, data = await self._call("PUT", f"{each.metadata.namespace}/endpointslices/{name}", each)
        if status == HTTPStatus.NOT_FOUND:
            raise SliceMoved(f"update EndpointSlice {name}: it was removed")
        _check(f"update EndpointSlice {name}", status, data)

    async def _call(self, method: str, path: str, body: EndpointSlice | None) -> tuple[int, bytes]:
        import aiohttp  # noqa: PLC0415  # as in `opened`

        sent: dict[str, Any] = {"headers": {"Content-Type": "application/json"}, "allow_redirects": False}
        if body is not None:
            sent["data"] = msgspec.json.encode(body)
        try:
            async with self._session.request(method, f"{self._url}/{path}", **sent) as response:
                data = await response.content.read(ANSWER_BYTES_MAX + 1)
                while len(data) <= ANSWER_BYTES_MAX and (more := await response.content.read(ANSWER_BYTES_MAX)):
                    data += more
        except TimeoutError:
            raise ApiFailed(f"the API server did not answer within {CALL_S:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ApiFailed(f"the API server was not reached: {error}"[:ERROR_CHARS_MAX]) from None
        if len(data) > ANSWER_BYTES_MAX:
            raise ApiFailed(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        return response.status, data


def _check(what: str, status: int, data: bytes) -> None:
    if status in (HTTPStatus.OK, HTTPStatus.CREATED):
        return
    try:
        message = msgspec.json.decode(data, type=_Status).message
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = ""
    kind = SliceMoved if status == HTTPStatus.CONFLICT else ApiFailed
    raise kind(f"{what} was answered {status}: {message}"[:ERROR_CHARS_MAX])


def _credentials_in(folder: Path) -> tuple[str, ssl.SSLContext]:
    """Return the token and what verifies the server; blocks. Raises ApiFailed."""
    try:
        with (folder / TOKEN_FILE).open("rb") as file:
            token = file.read(TOKEN_BYTES_MAX + 1).strip().decode(errors="replace")
        context = ssl.create_default_context(cafile=str(folder / CA_FILE))
    except OSError as error:
        # An SSLError is one too: its text has no contents of the file.
        raise ApiFailed(f"the credentials in {folder} cannot be used: {error}") from None
    if len(token) > TOKEN_BYTES_MAX:
        raise ApiFailed(f"{folder / TOKEN_FILE} is longer than {TOKEN_BYTES_MAX} bytes")
    if not token or not (token.isascii() and token.isprintable()) or " " in token:
        raise ApiFailed(f"{folder / TOKEN_FILE} is no token of printable ASCII characters")
    return token, context
