"""What a server is called, what it answers and which options it has: the one value that tells servers apart here."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Generic, get_args, get_type_hints

from remoting.protocol.codes import RequestCode
from serving.config.options import Option
from serving.config.server_config import Config


def _no_conflicts(_: object) -> Iterable[tuple[str, str]]:
    return ()


@dataclass(frozen=True, kw_only=True)
class ServerKind(Generic[Config]):
    """One kind of server."""

    #: What people call it: `NameServer`.
    name: str
    #: Its command, which is also its name in HTTP headers.
    program: str
    #: What the names of its environment variables begin with: `RMQ_NAMESRV_`.
    variable_prefix: str
    #: What the names of its metrics begin with: `rocketmq_namesrv_`.
    metric_prefix: str
    #: The key of each log line that tells servers of this kind apart.
    id_key: str
    #: What that key holds.
    id_meaning: str
    #: The requests that it knows; the codes of others are `unknown` in metrics and logs.
    requests: tuple[RequestCode, ...]
    #: Its configuration; each field but `unknown`, `stored` and `others_keys` is annotated with its `Option`.
    config_class: type[Config]
    #: Yields each field whose value does not go with that of another one, and what it must be; beside those that
    #: `checks.py` finds in any configuration.
    conflicts: Callable[[Config], Iterable[tuple[str, str]]] = _no_conflicts

    @cached_property
    def options(self) -> Mapping[str, Option]:
        """Every option by the name of its field: those of the server first, then what any server has."""
        hints = get_type_hints(self.config_class, include_extras=True)
        names = (name for each in self.config_class.__mro__ for name in vars(each).get("__annotations__", ()))
        return MappingProxyType(
            {name: extra for name in names for extra in get_args(hints[name])[1:] if isinstance(extra, Option)}
        )

    @cached_property
    def field_of_key(self) -> Mapping[str, str]:
        """The field of every name that a file may give it by."""
        return MappingProxyType(
            {key: name for name, option in self.options.items() for key in (option.key, *option.also)}
        )

    @cached_property
    def request_names(self) -> Mapping[int, str]:
        """What metrics and logs call the requests that it knows."""
        return MappingProxyType({int(code): code.name.lower() for code in self.requests})

    @cached_property
    def defaults(self) -> Config:
        """The configuration of somebody who gives none."""
        return self.config_class()  # type: ignore[call-arg]  # the class of a server has a default for each option

    def variable(self, option: Option) -> str:
        """Return the name of an option in the environment: `RMQ_NAMESRV_LISTEN_PORT`."""
        return self.variable_prefix + option.variable
