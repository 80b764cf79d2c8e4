"""Reads server-sent events, of which the console needs names and ids, and not the data."""

from typing import Final, NamedTuple

#: Longest part of a line that is looked at, in bytes; of a longer one, the rest is data of no interest.
LINE_BYTES_MAX: Final = 512


class EventHead(NamedTuple):
    """An event without its data."""

    name: str
    #: Blank if it has none.
    id: str


class EventHeads:
    """Takes the bytes of a stream as they come (WHATWG HTML, 9.2.6); this project's servers end lines with LF."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._name = self._id = ""

    def take(self, chunk: bytes) -> list[EventHead]:
        """Return the events that are complete with these bytes."""
        found: list[EventHead] = []
        *ended, rest = chunk.split(b"\n")
        for each in ended:
            self._add(each)
            if (event := self._line_ended()) is not None:
                found.append(event)
        self._add(rest)
        return found

    def _add(self, part: bytes) -> None:
        self._line += part[: LINE_BYTES_MAX - len(self._line)]

    def _line_ended(self) -> EventHead | None:
        line = self._line.decode(errors="replace").removesuffix("\r")
        self._line.clear()
        if not line:
            event = EventHead(self._name, self._id) if self._name else None
            self._name = self._id = ""
            return event
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "id" and value.isprintable():
            # It is sent back in a header, which takes no control characters.
            self._id = value
        return None
