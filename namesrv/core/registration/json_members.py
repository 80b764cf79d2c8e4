"""The members of a JSON object, one after another: a long text is read in pieces, none of which takes long.

Nothing is decoded here but keys: it is found out where values begin and end. Text between brackets is not checked, for
whoever wants a value decodes it. Keys may be bare integers, as fastjson writes them. Pure.
"""

import re
from typing import Final

import msgspec

from namesrv.core.values.cooperative import CooperativeTask
from remoting.protocol.errors import BodyError

#: A value that is longer is not found in one step, but in many; a key or a text cannot be longer. With a key and some
#: more it is below `fastjson.BARE_KEYS_BYTES_MAX`.
VALUE_BYTES_MAX: Final = 56 * 1024
#: What is skipped of one text, and how deep it may be nested: nobody sends that much that nobody reads.
SKIPPED_BYTES_MAX: Final = 4 * 1024 * 1024
_DEPTH_MAX: Final = 100
#: Tokens looked at in one step; takes about a millisecond.
_TOKENS: Final = 2048

_STRING: Final = rb'"(?>(?:[^"\\]++|\\.)*)"'


def _within_brackets(depth: int) -> bytes:
    inner = rb"[{\[]%b[}\]]|" % _within_brackets(depth - 1) if depth else b""
    return rb'(?>(?:[^"{}\[\]]++|%b%b)*)' % (inner, _STRING)


#: Topics are nested two deep, mappings too.
_VALUE: Final = re.compile(rb'%b|[{\[]%b[}\]]|[^"{}\[\],\s]++' % (_STRING, _within_brackets(3)), re.DOTALL)
_KEY: Final = re.compile(rb"\s*+(%b|-?[0-9]++)\s*+:\s*+" % _STRING, re.DOTALL)
_TOKEN: Final = re.compile(rb'([{\[])|([}\]])|[^"{}\[\]]++|%b' % _STRING, re.DOTALL)
_BRACKETS: Final = b"{", b"["
_OPENING: Final = re.compile(rb"\s*+\{")
_COMMA: Final = re.compile(rb"\s*+,")
_CLOSING: Final = re.compile(rb"\s*+\}")


class JsonMembers:
    """Goes through an object from member to member; raises BodyError where the text is no JSON."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        #: Where the next thing begins.
        self.at = 0
        #: Where the key that was found last begins.
        self._key_at = 0
        self._is_first = False
        self._skipped_bytes = 0

    def enter(self) -> None:
        """Go to the first member of the object that begins here."""
        self._take(_OPENING, "an object")
        self._is_first = True

    def next_key(self) -> str | None:
        """Return the key of the next member, and stand before its value; None at the end of the object.

        The value has to be taken, skipped or entered; who entered an object comes out of it with its end.
        """
        if _CLOSING.match(self.text, self.at):
            self._take(_CLOSING, "an end")
            self._is_first = False
            return None
        if not self._is_first:
            self._take(_COMMA, "a comma")
        self._is_first = False
        found = self._take(_KEY, "a key")
        self._key_at = found.start(1)
        return _text(found[1])

    def at_object(self) -> bool:
        """Return whether an object begins here."""
        return _OPENING.match(self.text, self.at) is not None

    def take(self) -> bytes | None:
        """Return the text of the member, with its key, and stand behind it; None if its value is longer than others."""
        found = _VALUE.match(self.text, self.at, self.at + VALUE_BYTES_MAX)
        if found is None or found.end() == self.at + VALUE_BYTES_MAX:
            return None
        self.at = found.end()
        return self.text[self._key_at : self.at]

    def skip(self) -> CooperativeTask[None]:
        """Stand behind the value, however long it is; a cooperative task."""
        if self.take() is not None:
            return
        if not self.text.startswith(_BRACKETS, self.at):
            raise self._unreadable("a value")
        depth = tokens = 0
        while True:
            found = self._take(_TOKEN, "a value")
            depth += (found[1] is not None) - (found[2] is not None)
            if not depth:
                return
            self._skipped_bytes += found.end() - found.start()
            if self._skipped_bytes > SKIPPED_BYTES_MAX or depth > _DEPTH_MAX:
                raise BodyError(f"members that are too long to be read, at byte {self.at}")
            tokens += 1
            if tokens % _TOKENS == 0:
                yield

    def check_end(self) -> None:
        """Raise BodyError if there is more than blanks."""
        end = self.at + VALUE_BYTES_MAX
        if len(self.text) > end or self.text[self.at :].strip():
            raise BodyError(f"not readable as JSON: trailing characters (byte {self.at})")

    def _take(self, pattern: re.Pattern[bytes], wanted: str) -> re.Match[bytes]:
        found = pattern.match(self.text, self.at, self.at + VALUE_BYTES_MAX)
        if found is None:
            raise self._unreadable(wanted)
        self.at = found.end()
        return found

    def _unreadable(self, wanted: str) -> BodyError:
        return BodyError(
            f"not readable as JSON: {wanted} of at most {VALUE_BYTES_MAX} bytes is expected at byte {self.at}"
        )


def _text(key: bytes) -> str:
    try:
        return msgspec.json.decode(key, type=str) if key.startswith(b'"') else key.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyError(f"not readable as JSON: {error}") from None
