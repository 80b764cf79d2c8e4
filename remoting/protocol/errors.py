"""What can go wrong between two peers.

RemotingError
+-- FrameError            the peer's bytes break the framing: the connection is closed
|   +-- HeaderError       a complete frame, but its header is invalid
+-- BodyError             the body of one request is invalid: that request is refused
+-- RequestRefused        the request was understood and is answered with a code and a remark
|   +-- CodeNotSupported  no handler for its code
+-- Refused               a peer answered a request of this process with an error code
|   +-- NotSupported      the peer is too old for the request
+-- InvokeError           a request of this process failed
    +-- InvokeTimeout     no answer before its deadline
    +-- ConnectionRefused nobody listens at the address
    +-- OutOfResources    this process has no file or memory left for a connection
    +-- AnswerNotFramed   what the peer sent is no frame: it may be another kind of server
    +-- TlsFailed         the peer does not speak TLS, or one side does not trust the other
"""

from collections.abc import Mapping
from typing import ClassVar, TypeVar

from remoting.protocol.codes import ResponseCode

Raised = TypeVar("Raised", bound=BaseException)


class RemotingError(Exception):
    """Root of everything this package raises on purpose."""


class FrameError(RemotingError):
    """The bytes of a peer break the framing rules; nothing after them can be trusted, so the connection closes."""

    #: Label of `requests_rejected_total` in the metrics.
    kind: ClassVar[str] = "bad_frame"


class FrameTooLarge(FrameError):
    """A frame announces more bytes than the limit."""

    kind = "too_large"

    def __init__(self, frame_bytes: int, frame_bytes_max: int) -> None:
        self.frame_bytes = frame_bytes
        self.frame_bytes_max = frame_bytes_max
        super().__init__(f"a frame of {frame_bytes} bytes is over the limit of {frame_bytes_max} (frameMaxLength)")


class HeaderError(FrameError):
    """A complete frame has a header that cannot be decoded."""


class BodyError(RemotingError):
    """The body of a request is not of the shape of its code."""


class RequestRefused(RemotingError):  # a refusal is an answer, not a failure of ours
    """A request is answered with a code other than success; the text is the remark that the peer reads."""

    code: ClassVar[ResponseCode] = ResponseCode.SYSTEM_ERROR
    #: The cause is logged elsewhere: the request was valid and allowed.
    is_logged: ClassVar[bool] = False
    #: `{}` for commands whose answer has a header class: Java then writes the key even for an error.
    ext_fields: ClassVar[Mapping[str, str] | None] = None


class CodeNotSupported(RequestRefused):
    """A request code that this server does not answer; the leading blank is Java's."""

    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    def __init__(self, request_code: int) -> None:
        self.request_code = request_code
        super().__init__(f" request type {request_code} not supported")


class Refused(RemotingError):
    """A peer answered with an error code."""

    def __init__(self, code: int, remark: str | None, rights: str = "") -> None:
        """Take the rights that its user needs, where the peer denied the request; blank for none, or others."""
        self.code, self.remark, self.rights = code, remark, rights
        needs = f"; the user needs {rights}" if rights else ""
        super().__init__(f"code {code}: {(remark or 'no remark').strip()}{needs}")


class NotSupported(Refused):
    """A peer does not know the request: its release is older than the request."""


class InvokeError(RemotingError):
    """A request that this process sent failed."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"request to {address} failed: {reason}")


class InvokeTimeout(InvokeError):
    """No answer came before the deadline."""

    def __init__(self, address: str, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        super().__init__(address, f"no answer within {timeout_ms} ms")


class NotSent(InvokeError):
    """It was the request's turn, and it was not to be sent any more."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, f"nothing was sent: {why}")


class ConnectionRefused(InvokeError):
    """Nobody listens at the address: the machine is there, the process is not."""


class OutOfResources(InvokeError):
    """This process or machine has nothing left to connect with; that says nothing about the peer."""


class AnswerNotFramed(InvokeError):
    """What the peer sent breaks the framing: it is another kind of server, or its answer is too large."""


class TlsFailed(InvokeError):
    """No TLS session came about: the peer speaks none, or one of both does not trust the other's certificate."""


def without_origin(error: Raised) -> Raised:
    """Return the error without where it comes from and what it came from.

    For one that is kept: it would hold the frames that it passed, and with them what they had read, up to 16 MiB. Where
    they hold it too, that lasts until the next collection of garbage, which is rare here.
    """
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
