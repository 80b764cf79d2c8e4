"""Sentences as they are stored with a resize: shortened, so that its document has a limit. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode
_CUT: Final = "..."
#: Bytes for the sentence that says how many others there were.
_REST_BYTES: Final = 24


def limited_text(text: str, bytes_max: int) -> str:
    """Return a text, cut if it has more bytes as JSON."""
    if _bytes_of(text) <= bytes_max:
        return text
    kept = text[:bytes_max]
    while _bytes_of(kept + _CUT) > bytes_max:
        kept = kept[: len(kept) * 7 // 8]
    return kept + _CUT


def limited_sentences(sentences: Sequence[str], bytes_max: int) -> tuple[str, ...]:
    """Return the first sentences, as many as have no more bytes as JSON, and how many there are beyond."""
    left = bytes_max - _REST_BYTES
    kept: list[str] = []
    for sentence in sentences:
        # The comma after it.
        left -= _bytes_of(sentence) + 1
        if left < 0:
            break
        kept.append(sentence)
    if not kept and sentences:
        kept.append(limited_text(sentences[0], bytes_max - _REST_BYTES))
    beyond = len(sentences) - len(kept)
    return (*kept, f"and {beyond} more") if beyond else tuple(kept)


def _bytes_of(text: str) -> int:
    return len(_encode(text))
