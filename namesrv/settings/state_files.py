"""Reads the KV table at the start.

Answers to `KVConfigManager.load`. Here alone the text meets its file name, so here are the
sentences for a damaged file.
"""

from pathlib import Path

from namesrv.settings.kv_config import DamagedKvConfig, KvConfig, decode
from serving.durable_file import DamagedFile, NotReadable, backup_of, read, read_latest, recover


def load_kv_config(path: Path) -> KvConfig:
    """Return the KV table, the empty one if there is no file or nothing in it; raises NotReadable and DamagedFile.

    What a crash left unfinished is finished, or removed.
    """
    recover(path)
    try:
        return decode(read_latest(path) or b"")
    except DamagedKvConfig as damage:
        raise DamagedFile(path, f"is no KV table: {damage.problem}. {_way_out(path)}") from damage


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
