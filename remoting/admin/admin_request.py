"""A request together with how its response is read. Pure.

Answers to `MQClientAPIImpl`, request by request, without its connections.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import GenericAlias, MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_args, get_origin

import msgspec

from remoting.protocol import fastjson
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

_SHOWN_ROWS: Final = 3
_SHOWN_CHARACTERS: Final = 100
_LISTS: Final = (list, tuple, set, frozenset)
#: Where odd rows of the answer that is read now are noted; None while one of them makes it unreadable.
_odd_rows: ContextVar[list[str] | None] = ContextVar("odd_rows", default=None)

Found = TypeVar("Found")
Other = TypeVar("Other")
Row = TypeVar("Row")
Shape = TypeVar("Shape", bound=msgspec.Struct)


class AdminRequest(NamedTuple, Generic[Found]):
    """A request, and how its response is read."""

    request: RemotingCommand
    #: Reads a successful response.
    read: Callable[[RemotingCommand], Found]
    #: Results for error codes that are valid responses.
    meanings: Mapping[int, Found] = _NOTHING_ELSE

    def read_response(self, answer: RemotingCommand, odd_rows: list[str] | None = None) -> Found:
        """Return the result in a response; raises Refused, NotSupported and BodyError.

        With `odd_rows` a row that cannot be read is left out, and its place is appended: rows come from many peers, of
        which one must not hide the others. A caller that decides by what is missing takes answers whole, without it.
        """
        if answer.code in self.meanings:
            return self.meanings[answer.code]
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise NotSupported(answer.code, answer.remark)
        if answer.code != ResponseCode.SUCCESS:
            rights = needed_rights(self.request.code) if is_denied(answer) else ""
            raise Refused(answer.code, answer.remark, rights)
        token = _odd_rows.set(odd_rows)
        try:
            return self.read(answer)
        finally:
            _odd_rows.reset(token)

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
    quotes, and as `decode_body` does. Raises BodyError. For odd rows see `AdminRequest.read_response`.
    """
    try:
        return msgspec.json.decode(body, type=shape, strict=False)
    except _UNREADABLE as error:
        if len(body) > QUOTED_BYTES_MAX:
            failure = BodyError(f"{error}; of more than {QUOTED_BYTES_MAX} bytes only standard JSON is read")
            return _without_odd_rows(shape, body, failure)
    quoted = with_quoted_keys(body)
    try:
        return msgspec.json.decode(quoted, type=shape, strict=False)
    except _UNREADABLE:
        pass
    try:
        return decode_body(shape, quoted)
    except BodyError as error:
        return _without_odd_rows(shape, quoted, error)


def readable_rows(rows: Mapping[str, Row], read: Callable[[str, Row], Found]) -> dict[str, Found]:
    """Return what is read of each row, by its name; a BodyError is raised, or the name noted as that of an odd row."""
    found = {}
    for name, row in rows.items():
        try:
            found[name] = read(name, row)
        except BodyError:
            if _odd_rows.get() is None:
                raise
            note_odd_row(name)
    return found


def note_odd_row(place: str) -> None:
    """Note a row that is left out of the answer that is read now, where somebody takes such notes."""
    if (odd := _odd_rows.get()) is not None:
        odd.append(place)


def left_out(rows: Sequence[str]) -> str:
    """Return a sentence, for people, about odd rows that were left out."""
    shown = ", ".join(repr(row[:_SHOWN_CHARACTERS]) for row in rows[:_SHOWN_ROWS])
    return f"rows of the answer that cannot be read are left out ({len(rows)}): {shown}"


def _without_odd_rows(shape: type[Shape], body: bytes, failure: BodyError) -> Shape:
    """Return what of standard JSON can be read, and note the rest; raises the failure where nobody takes such notes."""
    odd = _odd_rows.get()
    if odd is None:
        raise failure
    try:
        value = msgspec.json.decode(body)
        fastjson.drop_nulls(value)
        return msgspec.convert(_fitting(shape, value, "", odd), shape, strict=False)
    except _UNREADABLE:
        raise failure from None


def _fitting(kind: Any, value: Any, place: str, odd: list[str]) -> Any:
    """Return a plain value without the rows, elements of lists and maps, that cannot become what `kind` has there."""
    for each in (kind,) if get_origin(kind) in (dict, *_LISTS) else (kind, *get_args(kind)):
        if isinstance(value, dict) and _is_struct(each):
            types = {field.encode_name: field.type for field in msgspec.structs.fields(each)}
            return {k: _fitting(types.get(k), v, f"{place}.{k}", odd) for k, v in value.items()}
        if isinstance(value, dict) and get_origin(each) is dict:
            return dict(_fitting_rows(each, value.items(), place, odd))
        if isinstance(value, list) and get_origin(each) in _LISTS:
            table = GenericAlias(dict, (int, get_args(each)[0]))
            return [row for _, row in _fitting_rows(table, enumerate(value), place, odd)]
    return value


def _fitting_rows(table: Any, rows: Iterable[tuple[Any, Any]], place: str, odd: list[str]) -> Iterator[tuple[Any, Any]]:
    kind = get_args(table)[1]
    for key, value in rows:
        # A row that is a value of its own is there as a whole, or not at all.
        row = value if _is_struct(kind) else _fitting(kind, value, f"{place}.{key}", odd)
        try:
            msgspec.convert({key: row}, table, strict=False)
        except msgspec.ValidationError:
            odd.append(f"{place}.{key}".removeprefix("."))
        else:
            yield key, row


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def reading(shape: type[Shape]) -> Callable[[RemotingCommand], Shape]:
    """Return what reads a body as `shape`, by `decode_broker_body`."""
    return lambda answer: decode_broker_body(shape, answer.body)
