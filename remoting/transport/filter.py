"""Between a socket's bytes and frames: the preamble of a connection, and TLS where it is used; no socket here.

Answers to `HandshakeHandler` and `TlsModeHandler` (docs/protocol/remoting.md 11.1, 11.3).
"""

import ssl
from typing import Final

from remoting.protocol.errors import FrameError
from remoting.transport.preamble import Preamble
from remoting.transport.tls import TlsContexts, TlsError

#: How much is taken from OpenSSL at once; it gives one record, at most 16 KiB, anyway.
_READ_BYTES: Final = 64 * 1024


class TlsSession:
    """The server's side of one TLS connection, bytes to bytes: the event loop's own TLS must be chosen too early.

    After each `receive` and `send` the caller writes `take_output`, also after an error: it holds the alert for the
    peer.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        #: The handshake is done.
        self.established = False
        #: The peer sent close_notify.
        self.ended = False
        #: Nothing more can be read or written.
        self.failed = False

    @property
    def partial_bytes(self) -> int:
        """How many bytes wait for the end of their record; at least one before the handshake is done."""
        return self._incoming.pending or int(not self.established)

    def receive(self, ciphertext: bytes) -> bytes:
        """Return the plain bytes that are complete now; raises FrameError if TLS fails."""
        self._incoming.write(ciphertext)
        try:
            if not self.established:
                self._tls.do_handshake()
                self.established = True
            return self._read()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            self.failed = True
            reason = (error.reason or str(error)).replace("_", " ").lower()
            raise FrameError(f"TLS failed: {reason}") from None

    def send(self, plaintext: bytes) -> None:
        """Encrypt bytes of ours; only once the handshake is done. Those for a session that failed are dropped.

        A peer's bad record also ends what may be written, and responses to earlier requests may still come.
        """
        if self.failed:
            return
        try:
            self._tls.write(plaintext)
        except ssl.SSLError:
            self.failed = True

    def close(self) -> None:
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            # The peer's close_notify is not awaited, and a session that failed sends none.
            return

    def take_output(self) -> bytes:
        """Return the bytes to be written to the socket; they are gone from here."""
        return self._outgoing.read()

    def _read(self) -> bytes:
        chunks = []
        try:
            while chunk := self._tls.read(_READ_BYTES):
                chunks.append(chunk)
            # Nothing read is the peer's close_notify; nothing there to read would have been raised.
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        return b"".join(chunks)


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
        return self._tls is not None and self._tls.ended

    @property
    def failed(self) -> bool:
        return self._tls is not None and self._tls.failed

    @property
    def partial_bytes(self) -> int:
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
        if self._tls is None:
            return b""
        self._tls.close()
        return self._tls.take_output()

    def _start(self, *, is_tls: bool) -> None:
        mode = self._contexts.settings.server_mode if self._contexts is not None else "disabled"
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
