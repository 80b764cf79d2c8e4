"""What becomes of a request: the dispatcher's answer, or what a peer is told instead, as the frame to send.

Answers to `NettyRemotingAbstract.processRequestCommand` (docs/protocol/remoting.md 10). When a request's turn comes is
decided in `request_queue.py`.
"""

from collections.abc import Awaitable
from traceback import clear_frames
from typing import Final, Protocol

from remoting.background_tasks import is_failure
from remoting.protocol.codes import VERSION_5_3_1, ResponseCode, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.protocol.frame import Pieces, decode, decode_header, decode_pieces, encode
from remoting.server.body_limits import BodyLimits, BodyTooLong
from remoting.server.observer import Peer, Rejection, ServerObserver
from remoting.server.oneway_fast_path import Notices
from remoting.server.response_cache import KnownRequest, KnownRequests, PreparedAnswer
from remoting.server.statistics import ServerStatistics

BUSY_REMARK: Final = "[OVERLOAD]system busy, start flow control for a while"
GO_AWAY_REMARK: Final = "please go away"
#: What was raised is for the log; a peer learns only that the fault is ours.
FAULT_REMARK: Final = "internal error of the server; its log tells more"


_REJECTING_CODES: Final = frozenset({ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED})


#: What comes of a frame: a request that is known, or one with the key to learn its answer by.
Received = KnownRequest | tuple[RemotingCommand, bytes | None]


class Dispatcher(Protocol):
    """What answers requests."""

    def dispatch(
        self, request: RemotingCommand, connection: Peer
    ) -> RemotingCommand | PreparedAnswer | Awaitable[RemotingCommand]:
        """Answer one request.

        Returns a command, an answer that stood ready, or an awaitable where the answer waits for something, such as a
        disk. Raises RequestRefused or BodyError for what cannot be answered; anything else counts as a fault.
        """


class Answers:
    """Carries requests out and makes the frames of their answers; never raises."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        serialize_type: SerializeType,
        observer: ServerObserver,
        statistics: ServerStatistics,
        known: KnownRequests | None = None,
        notices: Notices | None = None,
    ) -> None:
        self._dispatch = dispatcher.dispatch
        self._execute = dispatcher.dispatch
        #: Bodies over these are refused.
        self.body_limits = BodyLimits()
        self._serialize_type = serialize_type
        self._observer = observer
        self._statistics = statistics
        #: None where every request is to be carried out.
        self.known = known
        #: None where there are none, or each is to be answered after all.
        self.notices = notices

    def drain(self) -> None:
        """Send peers elsewhere from now on, those that understand it (docs/protocol/remoting.md 11.5)."""
        self._dispatch = self._dispatch_or_send_away
        if self.known is not None:
            self.known.forget()
            self.known = None
        self.notices = None

    def read(self, data: bytes, at: int, length: int) -> Received:
        """Return the request that a frame is; raises as `frame.decode`."""
        known = self.known
        if known is None:
            return decode(data, at, length), None
        return known.find(data, at, at + 4 + length) or (decode(data, at, length), known.missed)

    @staticmethod
    def read_pieces(pieces: Pieces) -> Received:
        """Return the request that a frame in pieces is; it is too long to be known."""
        return decode_pieces(pieces), None

    def refuse(self, data: bytes, length: int) -> Received | None:
        """Return what stands for a frame whose body is too long for its code; raises as `frame.decode_header`.

        None if the frame may come. `data` begins with it, and has its whole header.
        """
        request = decode_header(data, length)
        return (request, None) if request.left_out_bytes > self.body_limits.of(request.code) else None

    def ready(self, request: KnownRequest) -> bytes | None:
        """Return the frame that answers a known request, None if it has to be carried out after all."""
        known = self.known
        return known.answer(request) if known is not None and request.prepared.is_true else None

    def begin(
        self, request: RemotingCommand, connection: Peer, key: bytes | None = None
    ) -> bytes | Awaitable[RemotingCommand]:
        """Return the frame that answers a request, `b""` if it wants none, or what `finish` has to wait for.

        With the `key` of a request that was not known, an answer that stood ready is remembered for it.
        """
        try:
            body_bytes = request.left_out_bytes or len(request.body)
            if body_bytes > (body_bytes_max := self.body_limits.of(request.code)):
                raise BodyTooLong(request.code, body_bytes, body_bytes_max)  # noqa: TRY301  # answered as any refusal
            answer = self._dispatch(request, connection)
        except Exception as error:  # noqa: BLE001  # whatever a handler raises ends here, told and answered
            answer = self._answer_to(error, request, connection)
        if isinstance(answer, PreparedAnswer):
            return self._ready(answer, request, key)
        if isinstance(answer, RemotingCommand):
            return self._frame(answer, request, connection)
        return answer

    def _ready(self, prepared: PreparedAnswer, request: RemotingCommand, key: bytes | None) -> bytes:
        if self.known is not None and key is not None:
            self.known.learn(key, request, prepared)
        self._statistics.prepared[request.code] += 1
        frame = prepared.frame(b"%d" % request.opaque)
        if self._serialize_type is not SerializeType.JSON:
            frame = encode(request.reply(ext_fields=prepared.ext_fields, body=prepared.body), self._serialize_type)
        return b"" if request.is_oneway else frame

    async def finish(self, request: RemotingCommand, connection: Peer, awaitable: Awaitable[RemotingCommand]) -> bytes:
        """Return the frame that answers a request once its answer is there, `b""` if it wants none."""
        try:
            answer = await awaitable
        except BaseException as error:  # as in begin; a peer waits for its answer
            if not is_failure(error):
                raise
            answer = self._answer_to(error, request, connection)
            # What waited for the error holds it, and is held by it, with all that the request brought, until the next
            # collection of garbage, which is rare here.
            clear_frames(error.__traceback__)
        return self._frame(answer, request, connection)

    def busy(self, request: RemotingCommand, connection: Peer) -> bytes:
        """Return the frame that tells a peer to come back later, `b""` if it wants none."""
        self._reject(request, connection, Rejection.BUSY, BUSY_REMARK)
        return self._frame(request.reply(ResponseCode.SYSTEM_BUSY, remark=BUSY_REMARK), request, connection)

    def tell_fault(self, request: RemotingCommand, connection: Peer, error: BaseException) -> None:
        """Tell that a request was carried out, perhaps, and met a fault of ours on the way to its answer."""
        self._observer.handler_failed(connection, request, error)

    def _dispatch_or_send_away(
        self, request: RemotingCommand, connection: Peer
    ) -> RemotingCommand | PreparedAnswer | Awaitable[RemotingCommand]:
        if request.version <= VERSION_5_3_1:
            return self._execute(request, connection)
        self._reject(request, connection, Rejection.DRAINING, GO_AWAY_REMARK)
        return request.reply(ResponseCode.GO_AWAY, remark=GO_AWAY_REMARK)

    def _answer_to(self, error: BaseException, request: RemotingCommand, connection: Peer) -> RemotingCommand:
        if isinstance(error, RequestRefused):
            # Other codes are ordinary answers: no such topic, no such key.
            if error.code in _REJECTING_CODES and not error.is_told:
                self._reject(request, connection, Rejection.BAD_REQUEST, str(error))
            return request.refusal(error)
        if isinstance(error, BodyError):
            self._reject(request, connection, Rejection.BAD_REQUEST, str(error))
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        self._observer.handler_failed(connection, request, error)
        return request.reply(ResponseCode.SYSTEM_ERROR, remark=FAULT_REMARK)

    def _reject(self, request: RemotingCommand, connection: Peer, reason: Rejection, error: str) -> None:
        self._statistics.rejected[reason] += 1
        self._observer.request_rejected(connection, request, reason, error)

    def _frame(self, answer: RemotingCommand, request: RemotingCommand, connection: Peer) -> bytes:
        if request.is_oneway:
            self._statistics.count_finished(request.code, answer.code)
            return b""
        try:
            frame = encode(answer, self._serialize_type)
        except Exception as error:  # noqa: BLE001  # an answer that cannot be written is a fault of ours as well
            answer = self._answer_to(error, request, connection)
            frame = encode(answer, self._serialize_type)
        self._statistics.count_finished(request.code, answer.code)
        return frame
