"""KvConfig: namespace -> key -> value, the table that operators fill with `updateKvConfig` and `updateOrderConf`.

Answers to Java's `KVConfigManager` and `KVConfigSerializeWrapper`. Each change gives a new table, so that the file can
be written before anybody sees the change. Files and locks do not enter here.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from remoting.protocol.shapes.namesrv import ORDER_TOPIC_CONFIG

_NO_TEXT: Final = ("{", "[")


class DamagedKvConfig(ValueError):
    """The text is no KV table."""


class _Stored(msgspec.Struct):
    """kvConfig.json; a table that is not there is damage, as with Java, since one was always written."""

    table: dict[str, dict[str, msgspec.Raw] | None] = msgspec.field(name="configTable")


class KvConfig(msgspec.Struct, frozen=True):
    """All namespaces with their entries; an emptied namespace stays."""

    #: Read it, and change it through the methods below.
    table: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)

    @property
    def chars(self) -> int:
        return sum(
            len(name) + sum(len(key) + len(value) for key, value in entries.items())
            for name, entries in self.table.items()
        )

    def get(self, namespace: str | None, key: str | None) -> str | None:
        """Return the value of an entry, None if there is none."""
        if namespace is None or key is None:
            return None
        return self.table.get(namespace, {}).get(key)

    def namespace(self, namespace: str | None) -> Mapping[str, str] | None:
        """Return the entries of a namespace, None if nothing was ever put there."""
        return None if namespace is None else self.table.get(namespace)

    def order_conf(self, topic: str) -> str | None:
        return self.get(ORDER_TOPIC_CONFIG, topic)

    def with_value(self, namespace: str, key: str, value: str | None) -> "KvConfig":
        """Return the table with this entry.

        A value of None leaves the namespace without the key: Java stores a null, which every reader of it and the
        file take for an entry that is not there.
        """
        entries = dict(self.table.get(namespace, {}))
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
        return KvConfig({**self.table, namespace: entries})

    def without(self, namespace: str, key: str) -> "KvConfig":
        """Return the table without this entry; it need not have been there."""
        if self.get(namespace, key) is None:
            return self
        return self.with_value(namespace, key, None)

    def encode(self) -> bytes:
        """Return the content of kvConfig.json as Java reads it: compact, UTF-8, sorted by namespace and key."""
        return msgspec.json.encode({"configTable": self.table}, order="sorted")


def decode(content: bytes) -> KvConfig:
    """Return the table that a kvConfig.json holds, the empty one for a file without content.

    Numbers and truth values count as their text, nulls as not there, as Java reads them. Raises DamagedKvConfig.
    """
    if not content.strip():
        return KvConfig()
    try:
        # Checked as a whole: msgspec would not look into the values that are taken apart later.
        stored = msgspec.json.decode(content.decode(), type=_Stored)
        return KvConfig(
            {name: dict(_texts(name, entries)) for name, entries in stored.table.items() if entries is not None}
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedKvConfig(str(error)) from error


def _texts(namespace: str, entries: Mapping[str, msgspec.Raw]) -> Iterator[tuple[str, str]]:
    for key, raw in entries.items():
        text = bytes(raw).decode()
        if text.startswith(_NO_TEXT):
            raise DamagedKvConfig(f"the value of key {key} in namespace {namespace} is not a text")
        if text.startswith('"'):
            yield key, msgspec.json.decode(raw, type=str)
        elif text != "null":
            yield key, text
