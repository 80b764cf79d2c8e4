"""KV table and configuration: the two things that outlive the process, durable before anybody sees them.

Each change is decided on the present value, written to disk in a thread, and only then becomes the present value; so
changes of one kind wait for each other, and readers never wait. Answers to `KVConfigManager` and `Configuration`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from namesrv import durable_file
from namesrv.config import NameServerConfig
from namesrv.config_text import listed_properties, persisted_properties
from namesrv.config_update import changes_in, updated
from namesrv.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from namesrv.refusals import KvKeyMissing, NotStored
from remoting.properties import file_text, listing_text


class SettingsObserver(Protocol):
    """Who is told that a setting changed, or could not."""

    def kv_changed(self, namespace: str, key: str, before: str | None, after: str | None) -> None:
        """Learn that an entry was put, or deleted (`after` is None)."""

    def kv_not_stored(self, error: NotStored) -> None:
        """Learn that the KV file could not be written, so nothing changed."""

    def config_changed(self, changed: tuple[str, ...], unknown: tuple[str, ...], config: NameServerConfig) -> None:
        """Learn which properties have new values, and which unknown ones were left aside."""

    def config_not_stored(self, error: NotStored) -> None:
        """Learn that the configuration file could not be written, so nothing changed."""


class Settings:
    """Holds the present configuration and KV table and changes them durably."""

    def __init__(
        self,
        config: NameServerConfig,
        kv: KvConfig,
        observer: SettingsObserver,
        config_applied: Callable[[NameServerConfig], None],
        order_topic_changed: Callable[[str], None],
    ) -> None:
        self.config = config
        self.kv = kv
        self._observer = observer
        #: Told of the configuration that is now in force.
        self._config_applied = config_applied
        #: Told of a topic whose order configuration is another one now.
        self._order_topic_changed = order_topic_changed
        self._kv_turn = asyncio.Lock()
        self._config_turn = asyncio.Lock()

    def listing(self) -> bytes:
        """Return the properties text that request 319 is answered with, secrets masked."""
        return listing_text(listed_properties(self.config)).encode()

    async def put_kv(self, namespace: str | None, key: str | None, value: str | None) -> None:
        """Store an entry; raises KvKeyMissing, or NotStored if the disk refuses."""
        if namespace is None or key is None:
            raise KvKeyMissing
        async with self._kv_turn:
            await self._store_kv(self.kv.with_value(namespace, key, value), namespace, key)

    async def delete_kv(self, namespace: str | None, key: str | None) -> None:
        """Forget an entry, if it is there; raises NotStored if the disk refuses."""
        if namespace is None or key is None:
            return
        async with self._kv_turn:
            await self._store_kv(self.kv.without(namespace, key), namespace, key)

    async def _store_kv(self, changed: KvConfig, namespace: str, key: str) -> None:
        before = self.kv.get(namespace, key)
        try:
            await _write(self.config.kv_config_path, changed.encode())
        except NotStored as error:
            self._observer.kv_not_stored(error)
            raise
        self.kv = changed
        if namespace == ORDER_TOPIC_CONFIG:
            self._order_topic_changed(key)
        self._observer.kv_changed(namespace, key, before, changed.get(namespace, key))

    async def update_config(self, body: bytes) -> None:
        """Apply the properties of a request 318, all or none; raises RequestRefused with what was wrong."""
        changes = changes_in(body)
        async with self._config_turn:
            update = updated(self.config, changes)
            text = file_text(persisted_properties(update.config)).encode()
            try:
                await _write(update.config.config_store_path, text)
            except NotStored as error:
                self._observer.config_not_stored(error)
                raise
            self.config = update.config
            self._config_applied(update.config)
            self._observer.config_changed(update.changed, update.unknown, update.config)


async def _write(path: str, content: bytes) -> None:
    """Write in a thread, so that a slow disk delays this request and no other."""
    try:
        await asyncio.to_thread(durable_file.replace, Path(path), content)
    except durable_file.DurableFileError as error:
        raise NotStored(str(error)) from error
