"""TLS of one connection, bytes to bytes; no socket here.

The event loop's own TLS must be chosen before a byte is read. Here the first bytes decide (`preamble.py`), and a PROXY
header may come before them.
"""

import ssl
from typing import Final

from remoting.protocol.errors import FrameError

#: How much is taken from OpenSSL at once; it gives one record, at most 16 KiB, anyway.
_READ_BYTES: Final = 64 * 1024


class TlsSession:
    """The server's side of one TLS connection.

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
        """Send close_notify."""
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
