"""What stands between a socket's bytes and frames: the opening, and TLS where it is used; no socket anywhere.

Answers to `HandshakeHandler` and `TlsModeHandler` (docs/protocol/remoting.md 11.1, 11.3).
"""

from remoting.protocol.errors import FrameError
from remoting.transport.preamble import Opening
from remoting.transport.tls import TlsContexts, TlsError
from remoting.transport.tls_session import TlsSession


class Gate:
    """Turns the bytes of one connection into those of frames, and answers into what is sent."""

    def __init__(self, contexts: TlsContexts | None) -> None:
        #: None: TLS is not served.
        self._contexts = contexts
        self._opening: Opening | None = Opening()
        self._tls: TlsSession | None = None
        #: For whom a proxy speaks, as "host:port".
        self.source: str | None = None

    @property
    def is_plain(self) -> bool:
        """Tell that bytes pass unchanged from now on, so the gate can be left out."""
        return self._opening is None and self._tls is None

    @property
    def ended(self) -> bool:
        """Tell whether the peer said that nothing more comes."""
        return self._tls is not None and self._tls.ended

    @property
    def failed(self) -> bool:
        """Tell whether TLS failed, so that answers cannot be sent any more."""
        return self._tls is not None and self._tls.failed

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes wait for more of them."""
        if self._opening is not None:
            return self._opening.unfinished_bytes
        return self._tls.unfinished_bytes if self._tls is not None else 0

    def receive(self, data: bytes) -> bytes:
        """Return the bytes for frames that are complete now; raises FrameError for what is not let in.

        Also after an error `take_output` has to be written.
        """
        if self._opening is not None:
            opened = self._opening.receive(data)
            if opened is None:
                return b""
            self._opening, self.source = None, opened.source
            self._admit(is_tls=opened.tls)
            data = opened.rest
        return data if self._tls is None else self._tls.receive(data)

    def send(self, data: bytes) -> bytes:
        """Return what is to be written for `data`; only asked where TLS is used."""
        assert self._tls is not None, "answers are sent after the opening, and a plain connection needs no gate then"
        self._tls.send(data)
        return self._tls.take_output()

    def take_output(self) -> bytes:
        """Return what is to be written without an answer of ours: the handshake, alerts."""
        return b"" if self._tls is None else self._tls.take_output()

    def close(self) -> bytes:
        """Return what is to be written before the socket is closed."""
        if self._tls is None:
            return b""
        self._tls.close()
        return self._tls.take_output()

    def _admit(self, *, is_tls: bool) -> None:
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
