"""JSON as fastjson writes it, read with positions: keys may be integers and objects. Pure.

Names may hold braces, quotes and anything else, so text is read from its beginning and never searched. An object is a
list of its members: a key that occurs twice is seen by its reader.
"""

import json
import re
from typing import Final, NamedTuple

#: A longer text is refused before it is read.
TEXT_BYTES_MAX: Final = 64 << 20
#: Members and elements of a text, which take some 3 microseconds and 200 bytes each: more than a request of 2 MiB has.
MEMBERS_MAX: Final = 300_000
#: Objects and arrays inside each other; files of offsets have four.
DEPTH_MAX: Final = 16
#: A long has 19 digits and a sign; longer numbers stay text.
_INTEGER_CHARACTERS_MAX: Final = 20

_BLANK: Final = re.compile(r"[ \t\r\n]*+")
_STRING: Final = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
#: A queue with its offset, of which files have a million: read in one step. The key may be in quotes.
_PAIR: Final = re.compile(
    r'[ \t\r\n]*+(?:"([0-9]++)"|([0-9]{1,10}+))[ \t\r\n]*+:[ \t\r\n]*+(-?[0-9]{1,19}+)[ \t\r\n]*+([,}])'
)
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


class OffsetFileError(ValueError):
    """A file of offsets cannot be used at all; the text begins with the line and the column, from 1."""

    def __init__(self, what: str, text: str, at: int) -> None:
        self.what = what
        line, column = place_of(text, at)
        super().__init__(f"line {line}, column {column}: {what}")


class OtherNumber(NamedTuple):
    """A number that is no integer of a usual length."""

    text: str


class ObjectMember(NamedTuple):
    """One member of an object."""

    key: "Node"
    value: "Node"
    #: Where its key begins, in characters.
    at: int


class JsonObject(NamedTuple):
    """An object, whose keys may be any values and occur more than once."""

    members: list[ObjectMember]


Node = str | int | bool | OtherNumber | JsonObject | list["Node"] | None


def place_of(text: str, at: int) -> tuple[int, int]:
    """Return line and column of a place, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def decode_text(data: bytes) -> str:
    """Return the text of a file; raises OffsetFileError for no UTF-8, and above TEXT_BYTES_MAX."""
    if len(data) > TEXT_BYTES_MAX:
        raise OffsetFileError(f"the text has {len(data)} bytes, of which {TEXT_BYTES_MAX} are allowed", "", 0)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise OffsetFileError(f"byte {error.start} is no UTF-8: {error.reason}", before, len(before)) from None


def parse_json(text: str) -> Node:
    """Return what the whole text is; raises OffsetFileError at the first place that is no JSON of fastjson."""
    reader = _Reader(text)
    found = reader.value(0)
    if reader.skip_blank() != len(text):
        raise reader.error("something follows the end of the JSON text")
    return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        #: Members and elements that may still come.
        self._left = MEMBERS_MAX

    def error(self, what: str, at: int | None = None) -> OffsetFileError:
        return OffsetFileError(what, self._text, self._at if at is None else at)

    def skip_blank(self) -> int:
        found = _BLANK.match(self._text, self._at)
        assert found is not None, "nothing at all is blank too"
        self._at = found.end()
        return self._at

    def value(self, depth: int) -> Node:
        """Read a value, and stand behind it."""
        self.skip_blank()
        match self._text[self._at : self._at + 1]:
            case '"':
                return self._string()
            case "{":
                return JsonObject(self._members(depth))
            case "[":
                return self._elements(depth)
            case "":
                raise self.error("the text ends in the middle")
        return self._number_or_literal()

    def _members(self, depth: int) -> list[ObjectMember]:
        self._enter(depth)
        members: list[ObjectMember] = []
        if self._takes("}"):
            return members
        while not self._pairs(members):
            began = self.skip_blank()
            key = self.value(depth + 1)
            if not self._takes(":"):
                raise self._wanted("a colon after a key")
            members.append(ObjectMember(key, self.value(depth + 1), began))
            self._count()
            if self._takes("}"):
                break
            if not self._takes(","):
                raise self._wanted("a comma or the end of an object")
        return members

    def _pairs(self, members: list[ObjectMember]) -> bool:
        """Read pairs of numbers as long as they come; return whether the object ends with the last of them."""
        while (pair := _PAIR.match(self._text, self._at)) is not None:
            self._at = pair.end()
            began = pair.start(2) if pair[1] is None else pair.start(1) - 1
            members.append(ObjectMember(pair[1] or int(pair[2]), int(pair[3]), began))
            self._count()
            if pair[4] == "}":
                return True
        return False

    def _elements(self, depth: int) -> list[Node]:
        self._enter(depth)
        elements: list[Node] = []
        if self._takes("]"):
            return elements
        while True:
            elements.append(self.value(depth + 1))
            self._count()
            if self._takes("]"):
                return elements
            if not self._takes(","):
                raise self._wanted("a comma or the end of an array")

    def _enter(self, depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise self.error(f"more than {DEPTH_MAX} objects or arrays are inside each other")
        self._at += 1

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self.error(f"the text has more than {MEMBERS_MAX} members of objects and elements of arrays")

    def _takes(self, wanted: str) -> bool:
        self.skip_blank()
        if not self._text.startswith(wanted, self._at):
            return False
        self._at += 1
        return True

    def _wanted(self, what: str) -> OffsetFileError:
        return self.error("the text ends in the middle" if self._at == len(self._text) else f"{what} is missing")

    def _string(self) -> str:
        began = self._at
        if (found := _STRING.match(self._text, began)) is None:
            raise self.error("the text ends inside of a string that begins here")
        self._at = found.end()
        if "\\" not in found[1]:
            return found[1]
        try:
            # Characters that JSON wants escaped are taken as they are, as fastjson does.
            return str(json.loads(found[0], strict=False))
        except ValueError as error:
            raise self.error(f"a string has an unknown escape: {error}", began) from None

    def _number_or_literal(self) -> Node:
        if (found := _NUMBER.match(self._text, self._at)) is not None:
            self._at = found.end()
            digits = found[0]
            is_integer = len(digits) <= _INTEGER_CHARACTERS_MAX and digits.lstrip("-").isdecimal()
            return int(digits) if is_integer else OtherNumber(digits)
        for text, literal in _LITERALS.items():
            if self._text.startswith(text, self._at):
                self._at += len(text)
                return literal
        raise self.error(f"neither a string, a number, an object nor an array: {self._text[self._at]!a}")
