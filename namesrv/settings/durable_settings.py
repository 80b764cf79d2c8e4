"""KV table and configuration: the two things that outlive the process, durable before anybody sees them.

Each change is decided on the present value, written to disk in a thread, and only then becomes the present value; so
changes of one kind wait for each other, and readers never wait. Answers to `KVConfigManager` and `Configuration`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from namesrv.refusals import KvKeyMissing, KvTooLong, NameTooLong
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.kv_config import DamagedKvConfig, KvConfig, decode
from remoting.protocol.shapes.namesrv import ORDER_TOPIC_CONFIG
from serving.config.stored_config import ConfigObserver, NotStored, StoredConfig, store
from serving.durable_file import DamagedFile, NotReadable, backup_of, read, read_latest, recover

#: Characters of a value: an order configuration names each broker set with its queues.
KV_VALUE_CHARS_MAX: Final = 64 * 1024
#: Characters of all namespaces, keys and values: all of them are written at each change. A host may put half of them.
KV_CHARS_MAX: Final = 4 * 1024 * 1024
#: Bytes of the file; no peer reads answers of more than 16 MiB.
KV_BYTES_MAX: Final = 14 * 1024 * 1024


class SettingsObserver(ConfigObserver[NameServerConfig], Protocol):
    """Observes changes of the KV table too."""

    def kv_changed(self, namespace: str, key: str, before: str | None, after: str | None) -> None:
        """Handle that an entry was put, or deleted (`after` is None)."""

    def kv_not_stored(self, error: NotStored) -> None:
        """Handle that the KV file could not be written, so nothing changed."""


class DurableSettings(StoredConfig[NameServerConfig]):
    """Holds the present configuration and KV table and changes them durably."""

    def __init__(
        self,
        config: NameServerConfig,
        kv: KvConfig,
        observer: SettingsObserver,
        config_applied: Callable[[NameServerConfig], None],
        order_topic_changed: Callable[[str], None],
    ) -> None:
        super().__init__(NAMESRV, config, observer, config_applied)
        self.kv = kv
        self._kv_observer = observer
        #: Called with a topic whose order configuration has changed.
        self._order_topic_changed = order_topic_changed
        self._kv_turn = asyncio.Lock()
        #: Which host put an entry since the start, and its characters; the file does not tell of those before.
        self._kv_sizes: dict[tuple[str, str], tuple[str, int]] = {}

    async def put_kv(self, namespace: str | None, key: str | None, value: str | None, network: str = "") -> None:
        """Store an entry of a host; raises KvKeyMissing, KvTooLong, or NotStored if the disk refuses."""
        if namespace is None or key is None:
            raise KvKeyMissing
        for what, text, chars_max in (
            ("namespace", namespace, NameTooLong.CHARS_MAX),
            ("key", key, NameTooLong.CHARS_MAX),
            ("value", value or "", KV_VALUE_CHARS_MAX),
        ):
            if len(text) > chars_max:
                raise KvTooLong(f"characters of the {what}", len(text), chars_max)
        async with self._kv_turn:
            changed = self.kv.with_value(namespace, key, value)
            if (size := changed.chars) > KV_CHARS_MAX:
                raise KvTooLong("characters of the KV table", size, KV_CHARS_MAX)
            # Characters that are escaped take up to six bytes: 103 and 219 answer whole namespaces.
            content = changed.encode()
            if len(content) > KV_BYTES_MAX:
                raise KvTooLong("bytes of the KV table", len(content), KV_BYTES_MAX)
            size = len(namespace) + len(key) + len(value or "")
            others = (
                chars for at, (host, chars) in self._kv_sizes.items() if host == network and at != (namespace, key)
            )
            if (of_host := size + sum(others)) > KV_CHARS_MAX // 2:
                raise KvTooLong("characters of this host in the KV table", of_host, KV_CHARS_MAX // 2)
            await self._store_kv(changed, content, namespace, key)
            self._kv_sizes[namespace, key] = network, size

    async def delete_kv(self, namespace: str | None, key: str | None) -> None:
        """Delete an entry, if it is there; raises NotStored if the disk refuses."""
        if namespace is None or key is None:
            return
        async with self._kv_turn:
            changed = self.kv.without(namespace, key)
            await self._store_kv(changed, changed.encode(), namespace, key)
            self._kv_sizes.pop((namespace, key), None)

    async def _store_kv(self, changed: KvConfig, content: bytes, namespace: str, key: str) -> None:
        before = self.kv.get(namespace, key)
        try:
            await store(self.config.kv_config_path, content, self._kv_observer.written_in_place)
        except NotStored as error:
            self._kv_observer.kv_not_stored(error)
            raise
        self.kv = changed
        if namespace == ORDER_TOPIC_CONFIG:
            self._order_topic_changed(key)
        self._kv_observer.kv_changed(namespace, key, before, changed.get(namespace, key))


def load_kv_config(path: Path) -> KvConfig:
    """Return the KV table, the empty one if there is no file or nothing in it; raises NotReadable and DamagedFile.

    What a crash left unfinished is finished, or removed.
    """
    recover(path)
    try:
        return decode(read_latest(path) or b"")
    except DamagedKvConfig as damage:
        raise DamagedFile(path, f"is no KV table: {damage}. {_way_out(path)}") from damage


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
