"""The files of the console, in memory: its one page, and what that loads, under a path that names their content.

Whatever the page loads may be cached for ever, as the path is another one after each change; the page itself is not.
"""

import gzip
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

#: The page; in it, PLACEHOLDER stands for the folder of the other files.
PAGE: Final = "index.html"
PLACEHOLDER: Final = b"{files}"

#: All files together, in bytes: they stay in memory once a browser has opened the console.
BYTES_MAX: Final = 2 * 1024 * 1024

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_DIGEST_CHARS: Final = 16


class StaticFile(msgspec.Struct, frozen=True):
    content_type: str
    etag: str
    body: bytes
    zipped: bytes


class ConsoleFiles(msgspec.Struct, frozen=True):
    page: StaticFile
    #: Digest of all others; the name of their folder in addresses.
    digest: str
    #: By their path in that folder.
    others: dict[str, StaticFile]


def load_files(root: Traversable | None = None) -> ConsoleFiles:
    """Read the files of the installed package `console`; takes some ms, so call it in a thread."""
    bodies = dict(sorted(_bodies(root or files("console") / "static")))
    page = bodies.pop(PAGE)
    assert sum(map(len, bodies.values())) <= BYTES_MAX, "they are part of the release"
    digest = sha256(b"".join(sha256(path.encode() + b"\0" + body).digest() for path, body in bodies.items()))
    folder = digest.hexdigest()[:_DIGEST_CHARS]
    page = page.replace(PLACEHOLDER, f"static/{folder}".encode())
    return ConsoleFiles(_file(PAGE, page), folder, {path: _file(path, body) for path, body in bodies.items()})


def _bodies(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _bodies(each, f"{prefix}{each.name}/")
        elif _ending(each.name) in _TYPES:
            found.append((prefix + each.name, each.read_bytes()))
    return found


def _file(path: str, body: bytes) -> StaticFile:
    etag = sha256(body).hexdigest()[:_DIGEST_CHARS]
    return StaticFile(_TYPES[_ending(path)], f'"{etag}"', body, gzip.compress(body, mtime=0))


def _ending(path: str) -> str:
    return "." + path.rpartition(".")[2]
