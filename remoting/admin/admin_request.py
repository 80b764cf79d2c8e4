"""A request together with how its response is read. Pure.

Answers to `MQClientAPIImpl`, request by request, without its connections.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from remoting.protocol.broker_rights import needed_rights
from remoting.protocol.codec import decode_body, decode_fields, encode_fields
from remoting.protocol.codes import ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, NotSupported, Refused
from remoting.protocol.object_keys import with_quoted_keys
from remoting.protocol.shapes.broker_admin import OffsetResponseHeader
from remoting.protocol.signing import is_denied

#: A longer body is read only as standard JSON: finding fastjson's keys takes up to 0.1 us a byte.
QUOTED_BYTES_MAX: Final = 4 * 1024 * 1024

_NOTHING_ELSE: Final[Mapping[int, Any]] = MappingProxyType({})
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Found = TypeVar("Found")
Other = TypeVar("Other")
Shape = TypeVar("Shape", bound=msgspec.Struct)


class AdminRequest(NamedTuple, Generic[Found]):
    """A request, and how its response is read."""

    request: RemotingCommand
    #: Reads a successful response.
    read: Callable[[RemotingCommand], Found]
    #: Results for error codes that are valid responses.
    meanings: Mapping[int, Found] = _NOTHING_ELSE

    def read_response(self, answer: RemotingCommand) -> Found:
        """Return the result in a response; raises Refused, NotSupported and BodyError."""
        if answer.code in self.meanings:
            return self.meanings[answer.code]
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotSupported(answer.code, answer.remark)
        if answer.code != ResponseCode.SUCCESS:
            rights = needed_rights(self.request.code) if is_denied(answer) else ""
            raise Refused(answer.code, answer.remark, rights)
        return self.read(answer)

    def mapped(self, change: Callable[[Found], Other]) -> "AdminRequest[Other]":
        """Return the same request with another result."""
        meanings = {code: change(found) for code, found in self.meanings.items()}
        return AdminRequest(self.request, lambda answer: change(self.read(answer)), meanings)


def command(code: int, header: msgspec.Struct | None = None, body: bytes = b"") -> RemotingCommand:
    """Return a request; fields of the header that are None are left out."""
    return RemotingCommand(code, ext_fields=encode_fields(header) if header is not None else None, body=body)


def read_nothing(_: RemotingCommand) -> None:
    """Read a response that has no content."""


def read_offset(answer: RemotingCommand) -> int:
    """Return the offset in the header of a response; raises BodyError if there is none."""
    offset = decode_fields(OffsetResponseHeader, answer.ext_fields).offset
    if offset is None:
        raise BodyError(f"the response has no readable offset: {dict(answer.ext_fields or {})}")
    return offset


def check_body_bytes(body: bytes, bytes_max: int) -> None:
    """Raise BodyError for a body that is longer than what a peer may have read from it."""
    if len(body) > bytes_max:
        raise BodyError(f"the answer has {len(body)} bytes, of which {bytes_max} are read")


def decode_broker_body(shape: type[Shape], body: bytes) -> Shape:
    """Return `shape` read from a body as fastjson writes it, with objects and integers as keys.

    Standard JSON of any length is read at once; other text up to QUOTED_BYTES_MAX is read again with its keys in
    quotes, and as `decode_body` does. Raises BodyError.
    """
    try:
        return msgspec.json.decode(body, type=shape, strict=False)
    except _UNREADABLE as error:
        if len(body) > QUOTED_BYTES_MAX:
            raise BodyError(f"{error}; of more than {QUOTED_BYTES_MAX} bytes only standard JSON is read") from None
    quoted = with_quoted_keys(body)
    try:
        return msgspec.json.decode(quoted, type=shape, strict=False)
    except _UNREADABLE:
        return decode_body(shape, quoted)


def reading(shape: type[Shape]) -> Callable[[RemotingCommand], Shape]:
    """Return what reads a body as `shape`, by `decode_broker_body`."""
    return lambda answer: decode_broker_body(shape, answer.body)
