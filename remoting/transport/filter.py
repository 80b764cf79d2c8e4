"""Between a socket's bytes and frames: the preamble of a connection, and TLS where it is used; no socket here.

Answers to `HandshakeHandler` and `TlsModeHandler` (docs/protocol/remoting.md 11.1, 11.3).
"""

from remoting.protocol.errors import FrameError
from remoting.transport.preamble import Preamble
from remoting.transport.tls import TlsContexts, TlsError
from remoting.transport.tls_session import TlsSession


class ConnectionFilter:
    """Turns the bytes of one connection into those of frames, and responses into what is written."""

    def __init__(self, contexts: TlsContexts | None) -> None:
        #: None: TLS is not served.
        self._contexts = contexts
        self._preamble: Preamble | None = Preamble()
        self._tls: TlsSession | None = None
        #: The "host:port" that a proxy claims to forward for.
        self.source: str | None = None

    @property
    def is_plain(self) -> bool:
        """True once bytes pass unchanged, so the filter can be dropped."""
        return self._preamble is None and self._tls is None

    @property
    def ended(self) -> bool:
        """Whether the peer closed its TLS side."""
        return self._tls is not None and self._tls.ended

    @property
    def failed(self) -> bool:
        """Whether TLS failed, so that nothing more can be written."""
        return self._tls is not None and self._tls.failed

    @property
    def partial_bytes(self) -> int:
        """How many bytes wait for more of them."""
        if self._preamble is not None:
            return self._preamble.partial_bytes
        return self._tls.partial_bytes if self._tls is not None else 0

    def receive(self, data: bytes) -> bytes:
        """Return the bytes for frames that are complete now; raises FrameError for what is refused.

        Also after an error the caller writes `take_output`.
        """
        if self._preamble is not None:
            parsed = self._preamble.receive(data)
            if parsed is None:
                return b""
            self._preamble, self.source = None, parsed.source
            self._start(is_tls=parsed.tls)
            data = parsed.rest
        return data if self._tls is None else self._tls.receive(data)

    def send(self, data: bytes) -> bytes:
        """Return what is to be written for `data`; only with TLS."""
        assert self._tls is not None, "responses come after the preamble, and a plain connection needs no filter then"
        self._tls.send(data)
        return self._tls.take_output()

    def take_output(self) -> bytes:
        """Return what TLS itself has to write: the handshake, alerts."""
        return b"" if self._tls is None else self._tls.take_output()

    def close(self) -> bytes:
        """Return what is to be written before the socket is closed."""
        if self._tls is None:
            return b""
        self._tls.close()
        return self._tls.take_output()

    def _start(self, *, is_tls: bool) -> None:
        mode = self._contexts.settings.mode if self._contexts is not None else "disabled"
        if not is_tls and mode == "enforcing":
            raise FrameError("a plain connection, but tls.server.mode=enforcing demands TLS")
        if not is_tls:
            return
        if self._contexts is None or mode == "disabled":
            raise FrameError("a TLS handshake, but tls.server.mode=disabled serves plain connections only")
        try:
            self._tls = TlsSession(self._contexts.server_context())
        except TlsError as error:
            raise FrameError(f"a TLS handshake, but there is no certificate: {error}") from None
