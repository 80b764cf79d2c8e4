"""A configuration as properties: what is shown of it, and what is stored.

Answers to Java's `Configuration.getAllConfigsInternal`.
"""

from collections.abc import Iterator
from typing import Final

from serving.config.options import MASK, text_of
from serving.config.server_config import Config, ServerConfig
from serving.config.server_kind import ServerKind

# Parts of names that promise a secret: an unknown property may be a misspelled one.
_SECRET_WORDS: Final = ("accesskey", "pass", "pwd", "secret", "token")


def listed_properties(kind: ServerKind[Config], config: Config) -> dict[str, str]:
    """Return key -> value for the request that asks, `-p` and logs: secrets masked, what is not set left out."""
    unknown = {each.key: shown_unknown(each.key, each.value) for each in config.unknown}
    return unknown | {kind.options[name].key: kind.options[name].shown(text) for name, text in _texts(kind, config)}


def persisted_properties(config: ServerConfig) -> dict[str, str]:
    """Return key -> value as the configuration file takes it: what was in it, and what requests have changed."""
    return {each.key: each.value for each in (*config.unknown, *config.stored)}


def shown_unknown(key: str, value: str) -> str:
    """Return the value of a property that is no option as it may be shown: masked if its name promises a secret."""
    return MASK if value and any(word in key.lower() for word in _SECRET_WORDS) else value


def _texts(kind: ServerKind[Config], config: Config) -> Iterator[tuple[str, str]]:
    """Yield field and text; blank where blank is the default means "not set", Java's null, and is left out."""
    for name in kind.options:
        text = text_of(getattr(config, name))
        if text or getattr(kind.defaults, name) != "":
            yield name, text
