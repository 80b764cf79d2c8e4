"""Reads at the start what the process keeps on disk, and the files an operator hands it.

Answers to `KVConfigManager.load` and to the reading half of `NamesrvStartup`. Here alone a text meets its file name, so
here are the sentences for damaged files.
"""

from pathlib import Path

from namesrv.config_sources import PropertiesFile
from namesrv.durable_file import DurableFileError, NotReadable, backup_of, read, remove_unfinished
from namesrv.kv_config import DamagedKvConfig, KvConfig, decode
from remoting.properties import PropertiesError, parse


class DamagedFile(DurableFileError):
    """A file was read, and its content makes no sense; the text says what to do."""


def load_kv_config(path: Path) -> KvConfig:
    """Return the KV table, the empty one if there is no file or nothing in it; raises NotReadable and DamagedFile.

    What a crash left unfinished beside the file is removed.
    """
    remove_unfinished(path)
    try:
        return decode(read(path) or b"")
    except DamagedKvConfig as damage:
        raise DamagedFile(path, f"is no KV table: {damage.problem}. {_way_out(path)}") from damage


def load_properties(path: str) -> PropertiesFile:
    """Return what the configuration file holds; raises NotReadable, also if there is none, and DamagedFile."""
    file = Path(path)
    remove_unfinished(file)
    content = read(file)
    if content is None:
        raise NotReadable(file, "there is no such file")
    return _parsed(path, content)


def load_tls_properties(path: str) -> PropertiesFile:
    """Return what the file of tls.* properties holds, nothing if there is none; raises NotReadable and DamagedFile."""
    content = read(Path(path)) if path else None
    return PropertiesFile() if content is None else _parsed(path, content)


def _parsed(path: str, content: bytes) -> PropertiesFile:
    try:
        return PropertiesFile(path, tuple(parse(content)))
    except PropertiesError as error:
        raise DamagedFile(Path(path), str(error)) from error


def _way_out(path: Path) -> str:
    move = "To start with an empty table, move the file away"
    backup = backup_of(path.resolve())
    if _is_kv_table(backup):
        return f"{move}; to start with the table before the last change, put {backup} in its place."
    return f"{move}."


def _is_kv_table(path: Path) -> bool:
    try:
        content = read(path)
        return content is not None and bool(decode(content).table)
    except (DamagedKvConfig, NotReadable):
        return False
