"""A file with a token of the HTTP side: read at the start, and again whenever it changes."""

import asyncio
import stat
from pathlib import Path
from typing import Final

from serving.durable_file import others_may
from serving.http.admin_access import PROPERTY, AdminToken
from serving.logging.logs import Logs
from serving.logging.server_events import FILE_EXPOSED, HTTP_ADMIN_TOKEN_LOAD_FAILED, HTTP_ADMIN_TOKEN_LOADED
from serving.process.broker_access import key_in
from serving.process.start import StartFailed

#: Fewer characters could be guessed.
TOKEN_CHARS_MIN: Final = 16

_LOOK_S: Final = 0.5


class AdminTokenFile:
    """Keeps the token in force that the file holds, and the one before while the file holds none."""

    def __init__(self, path: str, logs: Logs, key: str = PROPERTY) -> None:
        """Take the path, blank for no token, and the option that names it."""
        self._key = key
        self.token = AdminToken()
        self.path = path
        self._logs = logs
        #: What the file last held no token for.
        self._error = ""

    def load_first(self) -> None:
        """Read the token at the start; raises StartFailed if the file holds none."""
        if self.path:
            self._take(token_in(self.path, self._key))
            if others_may(stat.S_IROTH, Path(self.path)):
                self._logs.write(FILE_EXPOSED, path=self.path, error=f"any user may read {self._key}")

    async def watch(self) -> None:
        """Read it again twice a second; a file that is gone or holds no token is logged once, and changes nothing."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                token = await asyncio.to_thread(token_in, self.path, self._key)
            except StartFailed as error:
                self._keep(str(error))
            else:
                if self._error or not self.token.is_same(token):
                    self._take(token)

    def _take(self, token: str) -> None:
        self._error = ""
        self.token.replace(token)
        self._logs.write(HTTP_ADMIN_TOKEN_LOADED, path=self.path)

    def _keep(self, error: str) -> None:
        if error != self._error:
            self._error = error
            self._logs.write(HTTP_ADMIN_TOKEN_LOAD_FAILED, path=self.path, error=error)


def token_in(path: str, key: str) -> str:
    """Return the first line of a file, without blanks around it.

    Raises StartFailed with the name of the option and the path, never with what the file holds.
    """
    token = key_in(path, key).splitlines()[0].strip()
    # What a header can hold.
    if len(token) < TOKEN_CHARS_MIN or not (token.isascii() and token.isprintable()) or " " in token:
        raise StartFailed(
            f"{key}: the first line of {path} must be a token: {TOKEN_CHARS_MIN} or more printable ASCII "
            "characters without blanks"
        )
    return token
