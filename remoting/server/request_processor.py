"""Processes requests: the dispatcher's answer, or an error, as the frame to send.

Answers to `NettyRemotingAbstract.processRequestCommand` (docs/protocol/remoting.md 10). When a request's turn comes is
decided in `request_queue.py`.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from traceback import clear_frames
from typing import Final, Protocol

from remoting.background_tasks import is_failure
from remoting.protocol.codes import FLAG_RESPONSE, VERSION_5_3_1, ResponseCode, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.protocol.frame import Pieces, decode, decode_header, decode_pieces, encode
from remoting.protocol.frame_reader import FrameReader
from remoting.server.limits import BodyTooLong, ServerOptions
from remoting.server.observer import Peer, Rejection, ServedConnection, ServerObserver
from remoting.server.oneway_fast_path import OnewayFastPath
from remoting.server.response_cache import AUDIENCE_CACHE_BYTES_MAX, CachedRequest, PreparedResponse, ResponseCache
from remoting.server.statistics import Latencies, ServerStatistics, timer_ns

BUSY_REMARK: Final = "[OVERLOAD]system busy, start flow control for a while"
GO_AWAY_REMARK: Final = "please go away"
#: What was raised is for the log; a peer learns only that the fault is ours.
FAULT_REMARK: Final = "internal error of the server; its log tells more"

_REJECTING_CODES: Final = frozenset(
    {ResponseCode.SYSTEM_ERROR, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.CONTROLLER_INVALID_REQUEST}
)

#: What a frame becomes: a request with a cached response, or a request with the key to cache its response by.
Received = CachedRequest | tuple[RemotingCommand, bytes | None]

Answer = RemotingCommand | PreparedResponse | Awaitable[RemotingCommand]


class Dispatcher(Protocol):
    def dispatch(self, request: RemotingCommand, connection: Peer) -> Answer:
        """Answer one request.

        Returns a command, a prepared response, or an awaitable where the answer waits for something, such as a disk.
        Raises RequestRefused or BodyError for what cannot be answered; anything else counts as an internal error.
        """


class RequestProcessor:
    """Processes requests and encodes their responses; never raises."""

    def __init__(
        self, dispatcher: Dispatcher, options: ServerOptions, observer: ServerObserver, statistics: ServerStatistics
    ) -> None:
        self._dispatch = dispatcher.dispatch
        self._execute = dispatcher.dispatch
        self._options = options
        self._serialize_type = options.serialize_type
        self._observer = observer
        self._statistics = statistics
        self.set_urgent(options.urgent)
        self.cached_code = options.cached_code
        code, oneway = options.cached_code, options.oneway
        # Cached frames have JSON headers.
        is_json = options.serialize_type is SerializeType.JSON
        #: That of the plain audience; None where every request is processed.
        self.cache = ResponseCache(code, statistics) if code is not None and is_json else None
        #: Those of other audiences, made for the first connection of each.
        self._audience_caches: dict[int, ResponseCache] = {}
        #: None without such requests, or while each is to be answered.
        self.oneway = None if oneway is None else OnewayFastPath(oneway, statistics)
        # Bound once: each of many thousand connections would have methods of its own.
        self.new_plain_reader, self._read_plain, self._refuse_body = self.new_reader, self._read, self._refuse

    def is_urgent(self, code: int) -> bool:
        return code in self._urgent

    def set_urgent(self, codes: Iterable[int]) -> None:
        """Process these codes at once from now on; others wait in the queue, where an answer may take a while."""
        self._urgent = {code: self._statistics.latencies_of(code) for code in codes}

    def drain(self) -> None:
        """Answer GO_AWAY from now on to peers that understand it (docs/protocol/remoting.md 11.5)."""
        self._dispatch = self._dispatch_or_go_away
        if self.cache is not None:
            self.cache.clear()
            self.cache = None
        self.drop_audiences()
        self.oneway = None

    # Audiences

    def cache_of(self, audience: int) -> ResponseCache | None:
        """Return the cache of an audience; None where every request is processed."""
        if self.cache is None or not audience:
            return self.cache
        cache = self._audience_caches.get(audience)
        if cache is None:
            assert self._options.cached_code is not None, "there is a cache"
            cache = ResponseCache(self._options.cached_code, self._statistics, AUDIENCE_CACHE_BYTES_MAX)
            self._audience_caches[audience] = cache
        return cache

    def drop_audiences(self) -> None:
        """Drop the caches of all audiences but the plain one: their numbers mean something else from now on."""
        for cache in self._audience_caches.values():
            cache.clear()
        self._audience_caches.clear()

    # Frames

    def new_reader(self, audience: int = 0) -> FrameReader[Received]:
        frame_bytes_max = self._options.limits.frame_bytes_max
        return FrameReader(self.read_of(audience), self._read_pieces, frame_bytes_max, self._refuse_body)

    def read_of(self, audience: int) -> Callable[[bytes, int, int], Received]:
        cache = self.cache_of(audience) if audience else None
        return self._read_plain if cache is None else partial(self._read_for, cache)

    def _read(self, data: bytes, at: int, length: int) -> Received:
        """Return the request in a frame; raises as `frame.decode`."""
        cache = self.cache
        if cache is None:
            return decode(data, at, length), None
        return cache.find(data, at, at + 4 + length) or (decode(data, at, length), cache.missed_key)

    @staticmethod
    def _read_for(cache: ResponseCache, data: bytes, at: int, length: int) -> Received:
        """Return the request in a frame of another audience, as `_read`; a cache is empty once it is not used."""
        return cache.find(data, at, at + 4 + length) or (decode(data, at, length), cache.missed_key)

    @staticmethod
    def _read_pieces(pieces: Pieces) -> Received:
        return decode_pieces(pieces), None

    def _refuse(self, data: bytes, length: int) -> Received | None:
        """Return the request of a frame whose body is too long for its code, without the body; None if it may come.

        `data` begins with the frame and has its whole header. Raises as `frame.decode_header`.
        """
        request = decode_header(data, length)
        return (request, None) if request.left_out_bytes > self._options.body_limits.of(request.code) else None

    def process_frames(
        self, frames: Sequence[Received], connection: ServedConnection, size_max: int, began_ns: int
    ) -> int:
        """Process urgent requests and enqueue the others; return how many, fewer with over `size_max` response bytes.

        All responses leave in one write, and one reading of the clock serves all.
        """
        responses: list[bytes] = []
        latencies: list[Latencies] = []
        done = size = 0
        for done, frame in enumerate(frames, 1):  # noqa: B007  # is returned
            response = self._process_frame(frame, connection, latencies)
            responses.append(response)
            size += len(response)
            if size > size_max:
                break
        connection.send(responses[0] if len(responses) == 1 else b"".join(responses))
        if latencies:
            Latencies.add_batch(latencies, timer_ns() - began_ns)
        return done

    def _process_frame(self, frame: Received, connection: ServedConnection, latencies: list[Latencies]) -> bytes:
        """Return the response to an urgent request, `b""` for one that is enqueued."""
        if isinstance(frame, CachedRequest):
            cache = self.cache
            if cache is not None and frame.prepared.is_valid:
                latencies.append(cache.latencies)
                return cache.response(frame)
            # Its response became invalid while it waited.
            frame = (decode(frame.data, frame.at, frame.length), None)
        request, key = frame
        of_code = self._urgent.get(request.code)
        if of_code is None or request.flag & FLAG_RESPONSE:
            connection.enqueue(request)
            return b""
        latencies.append(of_code)
        response = self.process(request, connection, key)
        assert isinstance(response, bytes), "an urgent request has its response at once"
        return response

    # Requests

    def process(
        self, request: RemotingCommand, connection: Peer, key: bytes | None = None
    ) -> bytes | Awaitable[RemotingCommand]:
        """Return the response frame, `b""` if the request wants none, or what `finish` has to await.

        A prepared response is cached under `key`, where there is one.
        """
        try:
            body_bytes = request.left_out_bytes or len(request.body)
            if body_bytes > (body_bytes_max := self._options.body_limits.of(request.code)):
                raise BodyTooLong(request.code, body_bytes, body_bytes_max)  # noqa: TRY301  # answered as any refusal
            answer = self._dispatch(request, connection)
        except Exception as error:  # noqa: BLE001  # whatever a handler raises ends here, reported and answered
            answer = self._error_answer(error, request, connection)
        if isinstance(answer, PreparedResponse):
            return self._prepared_frame(answer, request, connection, key)
        if isinstance(answer, RemotingCommand):
            return self._frame(answer, request, connection)
        return answer

    async def finish(self, request: RemotingCommand, connection: Peer, awaitable: Awaitable[RemotingCommand]) -> bytes:
        """Return the response frame once its answer is there, `b""` if the request wants none."""
        try:
            answer = await awaitable
        except BaseException as error:  # as in `process`; a peer waits for its answer
            if not is_failure(error):
                raise
            answer = self._error_answer(error, request, connection)
            # What waited for the error holds it, and is held by it, with all that the request brought, until the next
            # collection of garbage, which is rare here.
            clear_frames(error.__traceback__)
        return self._frame(answer, request, connection)

    def busy_response(self, request: RemotingCommand, connection: Peer) -> bytes:
        """Reject a request with SYSTEM_BUSY; return the response frame, `b""` if the request wants none."""
        self._reject(request, connection, Rejection.BUSY, BUSY_REMARK)
        return self._frame(request.reply(ResponseCode.SYSTEM_BUSY, remark=BUSY_REMARK), request, connection)

    def report_fault(self, request: RemotingCommand, connection: Peer, error: BaseException) -> None:
        """Report that a request met an internal error before its response was written."""
        self._observer.handler_failed(connection, request, error)

    def _dispatch_or_go_away(self, request: RemotingCommand, connection: Peer) -> Answer:
        if request.version <= VERSION_5_3_1:
            return self._execute(request, connection)
        self._reject(request, connection, Rejection.DRAINING, GO_AWAY_REMARK)
        return request.reply(ResponseCode.GO_AWAY, remark=GO_AWAY_REMARK)

    def _error_answer(self, error: BaseException, request: RemotingCommand, connection: Peer) -> RemotingCommand:
        if isinstance(error, RequestRefused):
            # Other codes are ordinary answers: no such topic, no such key.
            if error.code in _REJECTING_CODES and not error.is_logged:
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

    def _prepared_frame(
        self, prepared: PreparedResponse, request: RemotingCommand, connection: Peer, key: bytes | None
    ) -> bytes:
        if key is not None and (cache := self.cache_of(connection.audience)) is not None:
            cache.store(key, request, prepared)
        self._statistics.prepared[request.code] += 1
        frame = prepared.frame(b"%d" % request.opaque)
        if self._serialize_type is not SerializeType.JSON:
            frame = encode(request.reply(ext_fields=prepared.ext_fields, body=prepared.body), self._serialize_type)
        return b"" if request.is_oneway else frame

    def _frame(self, answer: RemotingCommand, request: RemotingCommand, connection: Peer) -> bytes:
        if request.is_oneway:
            self._statistics.count_finished(request.code, answer.code)
            return b""
        try:
            frame = encode(answer, self._serialize_type)
        except Exception as error:  # noqa: BLE001  # an answer that cannot be encoded is a fault of ours as well
            answer = self._error_answer(error, request, connection)
            frame = encode(answer, self._serialize_type)
        self._statistics.count_finished(request.code, answer.code)
        return frame
