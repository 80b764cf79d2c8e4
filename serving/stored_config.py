"""The configuration in force, and how a request changes it: durable before anybody sees it.

A change is decided on the present value, written to disk in a thread, and only then becomes the present value; so
changes wait for each other, and readers never wait. Answers to Java's `Configuration`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from remoting.errors import RequestRefused
from remoting.properties import file_text, listing_text
from serving import durable_file
from serving.config import Config, ServerConfig
from serving.config_text import listed_properties, persisted_properties
from serving.config_update import changes_in, updated
from serving.server_kind import ServerKind

_Config_contra = TypeVar("_Config_contra", bound=ServerConfig, contravariant=True)


class NotStored(RequestRefused):
    """A change could not be written to disk, so it was not made; the text names the file and the reason."""

    is_told = True


class ConfigObserver(Protocol[_Config_contra]):
    """Who is told that the configuration changed, or could not."""

    def config_changed(self, changed: tuple[str, ...], unknown: tuple[str, ...], config: _Config_contra) -> None:
        """Learn which properties have new values, and which unknown ones were left aside."""

    def written_in_place(self, path: str) -> None:
        """Learn that a file was written in place, as it is a mount of its own."""

    def config_not_stored(self, error: NotStored) -> None:
        """Learn that the configuration file could not be written, so nothing changed."""


class StoredConfig(Generic[Config]):
    """Holds the present configuration and changes it durably."""

    def __init__(
        self,
        kind: ServerKind[Config],
        config: Config,
        observer: ConfigObserver[Config],
        applied: Callable[[Config], None],
    ) -> None:
        self.config = config
        self._kind = kind
        self._observer = observer
        #: Told of the configuration that is now in force.
        self._applied = applied
        self._config_turn = asyncio.Lock()

    def listing(self) -> bytes:
        """Return the properties text that a request for the configuration is answered with, secrets masked."""
        return listing_text(listed_properties(self._kind, self.config)).encode()

    async def update_config(self, body: bytes) -> None:
        """Apply the properties of a request, all or none; raises RequestRefused with what was wrong."""
        changes = changes_in(body)
        async with self._config_turn:
            update = updated(self._kind, self.config, changes)
            if update.changed:
                await self._change(update.config)
            self._observer.config_changed(update.changed, update.unknown, update.config)

    async def _change(self, config: Config) -> None:
        try:
            text = file_text(persisted_properties(config)).encode()
            await store(config.config_store_path, text, self._observer.written_in_place)
        except NotStored as error:
            self._observer.config_not_stored(error)
            raise
        self.config = config
        self._applied(config)


async def store(path: str, content: bytes, written_in_place: Callable[[str], None]) -> None:
    """Write a file durably, in a thread, so that a slow disk delays this request and no other; raises NotStored.

    `written_in_place` is told the path if nothing could be renamed to it.
    """
    try:
        if await asyncio.to_thread(durable_file.replace, Path(path), content):
            written_in_place(path)
    except durable_file.DurableFileError as error:
        raise NotStored(str(error)) from error
