"""The configuration in force, and how a request changes it: durable before it is in force.

A change is decided on the present value, written to disk in a thread, and only then becomes the present value; so
changes wait for each other, and readers never wait. Answers to Java's `Configuration`.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from remoting.protocol.errors import RequestRefused
from remoting.protocol.properties import TEXT_BYTES_MAX, PropertiesError, file_text, listing_text, text_with
from serving import durable_file
from serving.config.server_config import Config, ServerConfig
from serving.config.server_kind import ServerKind, listed_properties, persisted_properties
from serving.config.update import changes_in, updated

#: Two servers of one process have one file: who has read it writes it before the other one reads it.
_FILE_TURN: Final = threading.Lock()

_Config_contra = TypeVar("_Config_contra", bound=ServerConfig, contravariant=True)


class NotStored(RequestRefused):
    """A change could not be written to disk, so it was not made; the text names the file and the reason."""

    is_logged = True


class ConfigObserver(Protocol[_Config_contra]):
    """Observes changes of the configuration."""

    def config_changed(self, changed: tuple[str, ...], unknown: tuple[str, ...], config: _Config_contra) -> None:
        """Handle new values of properties; those that are `unknown` were ignored."""

    def written_in_place(self, path: str) -> None:
        """Handle that a file was overwritten in place, because it is a mount of its own."""

    def config_not_stored(self, error: NotStored) -> None:
        """Handle that the configuration file could not be written, so nothing changed."""


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
        #: Called with the configuration that is now in force.
        self._applied = applied
        self._config_turn = asyncio.Lock()

    def listing(self, proposed: bytes) -> bytes:
        """Return the properties text that a request for the configuration is answered with, secrets masked.

        `proposed` is the body of the request: blank from Java, and from a dry run the properties that it would change.
        Raises RequestRefused if these would be refused.
        """
        if proposed:
            updated(self._kind, self.config, changes_in(proposed))
        return listing_text(listed_properties(self._kind, self.config)).encode()

    async def update_config(self, body: bytes) -> None:
        """Apply the properties of a request, all or none; raises RequestRefused with what was wrong."""
        changes = changes_in(body)
        async with self._config_turn:
            update = updated(self._kind, self.config, changes)
            if update.changed:
                await self._change(update.config, update.changed)
            self._observer.config_changed(update.changed, update.unknown, update.config)

    async def _change(self, config: Config, changed: tuple[str, ...]) -> None:
        path = Path(config.config_store_path)
        try:
            if await asyncio.to_thread(self._store_changes, path, persisted_properties(config), changed):
                self._observer.written_in_place(config.config_store_path)
        except NotStored as error:
            self._observer.config_not_stored(error)
            raise
        self.config = config
        self._applied(config)

    def _store_changes(self, path: Path, properties: Mapping[str, str], changed: tuple[str, ...]) -> bool:
        """Put changes into the file as it is by now, or all properties if it was removed; raises NotStored."""
        try:
            with _FILE_TURN:
                before = durable_file.read_latest(path)
                if before is None:
                    return durable_file.replace(path, file_text(properties).encode())
                text = text_with(before, {key: properties[key] for key in changed}, self._key_of)
                if len(text) > TEXT_BYTES_MAX:
                    raise NotStored(f"{path} would have {len(text)} bytes, more than the limit of {TEXT_BYTES_MAX}")
                return durable_file.replace(path, text)
        except PropertiesError as error:
            raise NotStored(f"cannot read {path}: {error}") from error
        except durable_file.DurableFileError as error:
            raise NotStored(str(error)) from error

    def _key_of(self, name: str) -> str:
        """Return the property that a line of the file means, whatever name it has."""
        field = self._kind.field_of_key.get(name)
        return name if field is None else self._kind.options[field].key


async def store(path: str, content: bytes, written_in_place: Callable[[str], None]) -> None:
    """Write a file durably, in a thread, so that a slow disk delays this request and no other; raises NotStored.

    Calls `written_in_place` with the path if nothing could be renamed to it.
    """
    try:
        if await asyncio.to_thread(durable_file.replace, Path(path), content):
            written_in_place(path)
    except durable_file.DurableFileError as error:
        raise NotStored(str(error)) from error
