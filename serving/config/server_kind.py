"""What a server is called, what it answers and which options it has, and its configuration as properties.

The listings answer to Java's `Configuration.getAllConfigsInternal`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Generic

from remoting.protocol.codes import RequestCode
from serving.config.options import MASK, OPTION, Option, text_of
from serving.config.server_config import Config, ServerConfig

#: Parts of names that promise a secret: an unknown property may be a misspelled one. `rmq config` hides by the same.
SECRET_WORDS: Final = ("accesskey", "authenticationuser", "credential", "pass", "pwd", "secret", "token")


@dataclass(frozen=True, kw_only=True)
class ServerKind(Generic[Config]):
    #: What people call it: `NameServer`.
    name: str
    #: Its command, which is also its name in HTTP headers.
    program: str
    #: What the names of its environment variables begin with: `RMQ_NAMESRV_`.
    variable_prefix: str
    #: What the names of its metrics begin with: `rocketmq_namesrv_`.
    metric_prefix: str
    #: The key of each log line that distinguishes servers of this kind.
    id_key: str
    #: What that key holds.
    id_meaning: str
    #: The requests that it knows; the codes of others are `unknown` in metrics and logs.
    requests: tuple[RequestCode, ...]
    #: Its configuration; each field but `unknown`, `stored` and `others_keys` has its `Option`.
    config_class: type[Config]
    #: Yields each field whose value does not go with that of another one, and what it must be; beside those that
    #: `checks.py` finds in any configuration.
    conflicts: Callable[[Config], Iterable[tuple[str, str]]] = lambda _: ()
    #: Returns values of fields that follow from what is given, unless they are given themselves.
    implied: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda _: MappingProxyType({})
    #: The fields of `ServerConfig` that are options of this server too; None: all of them. A server that serves no
    #: RocketMQ peers has no use for most.
    inherited: frozenset[str] | None = None

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """Every option by the name of its field: those of the server first, then what any server has."""
        fields = self.config_class.__dataclass_fields__
        names = (name for each in self.config_class.__mro__ for name in vars(each).get("__annotations__", ()))
        return MappingProxyType(
            {name: fields[name].metadata[OPTION] for name in names if self._is_option(name) and fields[name].metadata}
        )

    def _is_option(self, name: str) -> bool:
        return self.inherited is None or name in self.inherited or name not in ServerConfig.__dataclass_fields__

    @property
    def is_changed_by_requests(self) -> bool:
        """Whether requests of peers change its configuration; else only a restart does."""
        return "config_store_path" in self.options

    @cached_property
    def field_of_key(self) -> Mapping[str, str]:
        return MappingProxyType(
            {key: name for name, option in self.options.items() for key in (option.key, *option.also)}
        )

    @cached_property
    def request_names(self) -> Mapping[int, str]:
        return MappingProxyType({int(code): code.name.lower() for code in self.requests})

    @cached_property
    def defaults(self) -> Config:
        return self.config_class()  # type: ignore[call-arg]  # the class of a server has a default for each option

    def variable(self, option: Option) -> str:
        return self.variable_prefix + option.variable


def listed_properties(kind: ServerKind[Config], config: Config) -> dict[str, str]:
    """Return key -> value for requests 319 and 1010, `-p` and logs: secrets masked, unset properties left out."""
    unknown = {each.key: shown_unknown(each.key, each.value) for each in config.unknown}
    return unknown | {kind.options[name].key: kind.options[name].shown(text) for name, text in _texts(kind, config)}


def persisted_properties(config: ServerConfig) -> dict[str, str]:
    """Return key -> value as the configuration file takes it: what was in it, and what requests have changed."""
    return {each.key: each.value for each in (*config.unknown, *config.stored)}


def shown_unknown(key: str, value: str) -> str:
    """Return the value of a property that is no option as it may be shown: masked if its name promises a secret."""
    return MASK if value and any(word in key.lower() for word in SECRET_WORDS) else value


def _texts(kind: ServerKind[Config], config: Config) -> Iterator[tuple[str, str]]:
    """Yield field and text; blank where blank is the default means "not set", Java's null, and is left out."""
    for name in kind.options:
        text = text_of(getattr(config, name))
        if text or getattr(kind.defaults, name) != "":
            yield name, text
