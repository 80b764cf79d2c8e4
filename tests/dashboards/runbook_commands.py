"""What the pages of alerts tell people to type: lines of their `sh` blocks, and commands inside sentences."""

import re
from dataclasses import dataclass

from board_expressions import RUNBOOKS

_BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"\s{2,}#.*$")
_INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Typed:
    """One line of a block, or one command in a sentence, without its comment."""

    page: str
    text: str

    def __str__(self):
        return f"{self.page}: {self.text}"

    def commands(self, program):
        """Return the words after a program, each time that it is called here; a name alone may be that of a board."""
        calls = re.split(r"[;|]\s*|\bdo\s+", self.text)
        return [words[1:] for words in map(str.split, calls) if words[:1] == [program] and words[1:]]


def pages():
    """Return every page, with its name."""
    return {path.stem: path.read_text() for path in sorted(RUNBOOKS.glob("*.md"))}


def lines():
    """Return the lines of all blocks."""
    return [
        Typed(page, _COMMENT.sub("", line))
        for page, text in pages().items()
        for block in _BLOCK.findall(text)
        for line in map(str.strip, block.splitlines())
    ]


def everything():
    """Return the lines of all blocks and what is quoted in sentences."""
    return lines() + [
        Typed(page, quoted) for page, text in pages().items() for quoted in _INLINE.findall(_BLOCK.sub("", text))
    ]


def asking_servers():
    """Return the lines that ask servers by HTTP."""
    return [line for line in lines() if re.match(r"(for \w in \S+; do .*)?curl ", line.text)]
