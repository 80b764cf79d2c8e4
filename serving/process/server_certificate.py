"""The certificate that peers are shown: loaded at the start, after its file changed, and at SIGHUP."""

import asyncio
from datetime import UTC, datetime
from typing import Final

from remoting.clock import Clock
from remoting.transport.tls import TlsContexts, TlsError, TlsSettings
from serving.logging.logs import Logs
from serving.logging.server_events import CERTIFICATE_LOAD_FAILED, CERTIFICATE_LOADED
from serving.metrics.server_counters import ServerCounters
from serving.process.start import StartFailed

#: Java looks at certificate files as often.
_LOOK_S: Final = 0.5
_SERVER: Final = "server"


class ServerCertificate:
    """Loads and watches it."""

    def __init__(self, settings: TlsSettings, clock: Clock, logs: Logs, counters: ServerCounters) -> None:
        self.contexts = TlsContexts(settings, clock)
        self._logs = logs
        self._counters = counters

    def load_first(self) -> None:
        """Load it at the start; raises StartFailed if nobody can be served without it."""
        error = self.contexts.reload()
        if error is not None and self.contexts.settings.server_mode == "enforcing":
            raise StartFailed(f"tls.server.mode=enforcing needs a certificate: {error}")
        self._log_reload(error)

    def load(self) -> None:
        self._log_reload(self.contexts.reload())

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if await asyncio.to_thread(self.contexts.changed):
                self.load()

    def _log_reload(self, error: TlsError | None) -> None:
        if error is not None:
            self._logs.write(CERTIFICATE_LOAD_FAILED, certificate=_SERVER, path=error.path, error=str(error))
        elif expiry_s := self.contexts.certificate_expiry_unix_s:
            self._counters.certificate_expiry[_SERVER] = expiry_s
            path, expires = self.contexts.settings.server_cert_path, datetime.fromtimestamp(expiry_s, UTC).isoformat()
            self._logs.write(CERTIFICATE_LOADED, certificate=_SERVER, path=path, expires=expires)
