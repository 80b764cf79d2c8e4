"""Any shape <-> extFields strings or JSON bodies; `msgspec` does the work, this module knows Java's conversions.

Answers to `CommandCustomHeader` filling by reflection and to `RemotingSerializable.decode`. A field that is missing or
does not parse is left at its default, as Java leaves it null: what must be there is decided by each command.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeVar, get_args

import msgspec

from remoting.protocol import fastjson
from remoting.protocol.errors import BodyError

Shape = TypeVar("Shape", bound=msgspec.Struct)
Body = TypeVar("Body")


#: Sign and digits without the zeros in front: Python refuses to make a number of thousands of digits.
_DECIMAL: Final = re.compile(r"([+-]?)0*([0-9]{1,20})")
#: So many are never more than the longest number that is read.
_PLAIN_DIGITS_MAX: Final = 20

#: What msgspec raises for a body that it cannot read.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_fields(shape: type[Shape], fields: Mapping[str, str] | None) -> Shape:
    """Return `shape` filled from a request's extFields.

    Booleans are true for "true" in any case and false for all else; integers are strict decimals within their range;
    a field that is missing or unreadable keeps its default, so every field of a header shape needs one.
    """
    if not fields:
        return shape()
    if (integers := _convertible(shape)) is not None and _are_digits(fields, integers):
        try:
            return msgspec.convert(fields, shape, strict=False)
        except msgspec.ValidationError:
            # Too large for one of its fields, or zeros in front; the others are still read.
            pass
    values = {}
    for name, attribute, read in _readers(shape):
        text = fields.get(name)
        if text is not None and (value := read(text)) is not None:
            values[attribute] = value
    return shape(**values)


@cache
def _convertible(shape: type[msgspec.Struct]) -> tuple[str, ...] | None:
    """Return the wire names of a shape's integers; None if msgspec reads other fields of it unlike Java.

    It takes "1" for a true Boolean, and "1e3" for an integer.
    """
    readers = _readers(shape)
    if any(read is _read_boolean for _, _, read in readers):
        return None
    return tuple(name for name, _, read in readers if read is not str)


def _are_digits(fields: Mapping[str, str], integers: tuple[str, ...]) -> bool:
    """Return whether all integers that are there are written as nearly all are."""
    for name in integers:
        text = fields.get(name)
        if text is not None and not text.isdigit():
            return False
    return True


def encode_fields(header: msgspec.Struct) -> dict[str, str]:
    """Return the extFields of `header`; a field that is None is left out, as Java leaves out nulls."""
    fields = {}
    for name, wire_name in _wire_names(type(header)):
        value = getattr(header, name)
        if value is not None:
            fields[wire_name] = str(value).lower() if isinstance(value, bool) else str(value)
    return fields


@cache
def _wire_names(shape: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(shape))


def decode_body(shape: type[Body], body: bytes) -> Body:
    """Return `shape` read from a JSON body of any Java peer.

    Standard JSON of the expected types is read at once. What fails is read again, up to `fastjson.BARE_KEYS_BYTES_MAX`,
    with bare integer keys and numbers as strings, and then, up to `fastjson.PARSE_BYTES_MAX`, with all of fastjson's
    liberties and nulls for absent. Raises BodyError if that fails too.
    """
    kind: Any = shape  # mypy holds a class for no more hashable than its instances
    value: Body
    try:
        value = _decoder(kind).decode(body)
    except _UNREADABLE as error:
        if len(body) > fastjson.BARE_KEYS_BYTES_MAX:
            only = f"of more than {fastjson.BARE_KEYS_BYTES_MAX} bytes only standard JSON is read"
            raise BodyError(f"{error}; {only}") from None
        value = _decode_lax_body(kind, body)
    return value


def _decode_lax_body(kind: Any, body: bytes) -> Any:
    quoted = fastjson.with_quoted_integer_keys(body)
    try:
        return _lax_decoder(kind).decode(quoted)
    except _UNREADABLE as error:
        if len(body) > fastjson.PARSE_BYTES_MAX:
            raise BodyError(str(error)) from None
    try:
        return msgspec.convert(fastjson.parse_quoted(body, quoted), kind, strict=False)
    except msgspec.ValidationError as error:
        raise BodyError(str(error)) from None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _lax_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, strict=False)


@cache
def _readers(shape: type[msgspec.Struct]) -> tuple[tuple[str, str, Callable[[str], Any]], ...]:
    return tuple((field.encode_name, field.name, _reader(field.type)) for field in msgspec.structs.fields(shape))


def _reader(wanted: Any) -> Callable[[str], Any]:
    """Return the function that reads one field's text; it answers None for what Java could not parse."""
    kinds = {base for kind in (get_args(wanted) or (wanted,)) for base in (get_args(kind) or (kind,))}
    if bool in kinds:
        return _read_boolean
    if int in kinds:
        metas = [meta for meta in kinds if isinstance(meta, msgspec.Meta)]
        assert metas, "an integer field of a header names its width: Int32 or Int64"
        return _integer_reader(metas[0])
    return str


def _read_boolean(text: str) -> bool:
    return text.lower() == "true"


def _integer_reader(meta: msgspec.Meta) -> Callable[[str], int | None]:
    least, most = meta.ge, meta.le
    assert isinstance(least, int), "Int32 and Int64 set both"
    assert isinstance(most, int), "as above"

    def read(text: str) -> int | None:
        # Nearly all numbers are plain digits.
        is_plain = len(text) <= _PLAIN_DIGITS_MAX and text.isascii() and text.isdigit()
        if not is_plain:
            if (decimal := _DECIMAL.fullmatch(text)) is None:
                return None
            text = decimal[1] + decimal[2]
        value = int(text)
        return value if least <= value <= most else None

    return read
