"""TLS of one connection, bytes to bytes; no socket anywhere.

The event loop's own TLS must be chosen before a byte is read. Here the first bytes tell (`preamble.py`), and a PROXY
header may stand before them.
"""

import ssl
from typing import Final

from remoting.protocol.errors import FrameError

#: How much is taken from OpenSSL at once; it gives one record, at most 16 KiB, anyway.
_READ_BYTES: Final = 64 * 1024


class TlsSession:
    """The server's side of one TLS connection.

    After each `receive` and `send` the bytes of `take_output` are to be written, also after an error: they hold the
    alert that tells the peer.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        #: The handshake is done.
        self.established = False
        #: The peer said that nothing more comes.
        self.ended = False
        #: Nothing more can be read or written.
        self.failed = False

    @property
    def unfinished_bytes(self) -> int:
        """How many bytes wait for the end of their record; at least one before the handshake is done."""
        return self._incoming.pending or int(not self.established)

    def receive(self, ciphertext: bytes) -> bytes:
        """Return the plain bytes that are complete now; raises FrameError if this is no TLS that we accept."""
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

        A peer's bad record also ends what we may write, and answers to what it asked before may still come.
        """
        if self.failed:
            return
        try:
            self._tls.write(plaintext)
        except ssl.SSLError:
            self.failed = True

    def close(self) -> None:
        """Tell the peer that nothing more comes (close_notify)."""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            # The peer's own notice is not waited for, and a session that failed has none to give.
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
