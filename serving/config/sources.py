"""From command line, environment and files to one configuration.

Answers to `NamesrvStartup.parseCommandlineAndConfigFile`, its twin in `ControllerStartup`, and `TlsSystemConfig`.
Only the two `load_` functions read files; the rest takes what the caller brings. The stronger source wins: command
line, environment, file of tls.* properties, configuration file, default.
"""

import stat
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from remoting.protocol.properties import PropertiesError, Property, parse
from serving.config.checks import ConfigError, bad_option, conflicts, read_values
from serving.config.options import FilePath
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.config.update import OF_THE_FILE_ALONE
from serving.durable_file import DamagedFile, NotReadable, OpenToOthers, others_may, read, read_latest, recover

_TLS_PREFIX: Final = "tls."
# As with Java: that file is about certificates, not about whether TLS is used, nor about itself.
_NOT_IN_TLS_FILE: Final = frozenset({"tls.server.mode", "tls.enable", "tls.config.file"})
_DEFAULT: Final = "default"
_NO_HOME: Final = "a path without ~, because the environment variable HOME is not set"
_SIMILARITY_LEAST: Final = 0.75


class PropertiesFile(msgspec.Struct, frozen=True):
    #: As the operator gave it; blank for no file.
    path: str = ""
    properties: tuple[Property, ...] = ()
    #: Any user of this machine may write it.
    is_open: bool = False


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    #: Property -> text, from the command line.
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: All variables; those that are blank count as not given. HOME stands for `~` in paths.
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: The file of `--config-file`; it becomes configStorePath, so that changes by request are written to it.
    file: PropertiesFile = PropertiesFile()
    #: The file of `tls.config.file`, see `tls_config_path`.
    tls_file: PropertiesFile = PropertiesFile()


class WhyIgnored(Enum):
    """Why a line of a file changes nothing."""

    UNKNOWN = "unknown"
    REPEATED = "repeated"
    NOT_IN_TLS_FILE = "not in the TLS file"
    NO_EFFECT = "no effect"


_PROBLEMS: Final = {
    WhyIgnored.UNKNOWN: "is not a property of this server",
    WhyIgnored.REPEATED: "is overridden by line {}",
    WhyIgnored.NOT_IN_TLS_FILE: "cannot be set in this file",
    WhyIgnored.NO_EFFECT: "has an effect in the Java server only",
}


class IgnoredKey(msgspec.Struct, frozen=True):
    """One line of a file that changes nothing, and why; the text is a sentence for the operator."""

    path: str
    line: int
    key: str
    why: WhyIgnored
    #: The property that was probably meant, or the line that counts instead; blank if there is none.
    instead: str = ""

    def __str__(self) -> str:
        problem = _PROBLEMS[self.why].format(self.instead)
        if self.why is WhyIgnored.UNKNOWN and self.instead:
            problem += f"; did you mean {self.instead}?"
        return f"line {self.line} of {self.path}: {self.key} {problem}"


class _Given(NamedTuple):
    field: str
    text: str
    source: str


def load_properties(path: str) -> PropertiesFile:
    """Return what the configuration file holds; raises NotReadable, also if there is none, and DamagedFile."""
    file = Path(path)
    recover(file)
    content = read_latest(file)
    if content is None:
        raise NotReadable(file, "there is no such file")
    return _parsed(path, content)


def load_tls_properties(path: str) -> PropertiesFile:
    """Return what the file of tls.* properties holds, nothing if there is none; raises NotReadable and DamagedFile."""
    content = read(Path(path)) if path else None
    return PropertiesFile() if content is None else _parsed(path, content)


def _parsed(path: str, content: bytes) -> PropertiesFile:
    try:
        return PropertiesFile(path, tuple(parse(content)), others_may(stat.S_IWOTH, Path(path)))
    except PropertiesError as error:
        raise DamagedFile(Path(path), str(error)) from error


def from_sources(kind: ServerKind[Config], sources: Sources) -> Config:
    """Return the configuration; raises ConfigError with every bad value of every source, also of one overruled.

    Raises OpenToOthers if any user may write the file, and programs are run or requests sent by what it says.
    """
    given = list(_given(kind, sources))
    read, bad = read_values(kind, given)
    where = {each.field: each.source for each in given}
    values: dict[str, Any] = {**kind.implied(read), **read}
    values.setdefault("tls_enable", values.get("tls_server_mode") == "enforcing")
    for name, path in _homely_paths(kind, values, sources.environment):
        if path is None:
            tilde = values.get(name, getattr(kind.defaults, name))
            bad.append(bad_option(kind.options[name], tilde, where.get(name, _DEFAULT), _NO_HOME))
        else:
            values[name] = path
    if bad:
        raise ConfigError(tuple(bad))
    stored = tuple(each for each in sources.file.properties if each.key in kind.field_of_key)
    config = kind.config_class(**values, unknown=_unknown(kind, sources.file), stored=stored)
    wrong = [
        bad_option(kind.options[name], getattr(config, name), where.get(name, _DEFAULT), allowed)
        for name, allowed in conflicts(kind, config)
    ]
    if wrong:
        raise ConfigError(tuple(wrong))
    executes = OF_THE_FILE_ALONE.intersection(kind.options[name].key for name in values if values[name])
    if sources.file.is_open and executes:
        path = sources.file.path
        raise OpenToOthers(Path(path), f"any user may write it, and {min(executes)} is set: chmod o-w {path}")
    return config


def tls_config_path(kind: ServerKind[Config], sources: Sources) -> str:
    """Return where the file of tls.* properties lies, blank for nowhere; `from_sources` reports a bad path."""
    given = [each.text.strip() for each in _given(kind, sources) if each.field == "tls_config_file"]
    path = given[-1] if given else kind.defaults.tls_config_file
    return (_under_home(path, sources.environment) or "") if path.startswith("~/") else path


def ignored_keys(kind: ServerKind[Config], sources: Sources) -> tuple[IgnoredKey, ...]:
    """Return the lines of both files that change nothing, so that the caller can warn of them."""
    return (
        *_ignored_in(kind, sources.file, kind.field_of_key.keys(), WhyIgnored.UNKNOWN),
        *_ignored_in(kind, sources.tls_file, _tls_file_keys(kind), WhyIgnored.NOT_IN_TLS_FILE),
    )


def _given(kind: ServerKind[Config], sources: Sources) -> Iterator[_Given]:
    yield from _given_in(kind, sources.file, kind.field_of_key.keys())
    yield from _given_in(kind, sources.tls_file, _tls_file_keys(kind))
    if sources.file.path and kind.is_changed_by_requests:
        yield _Given("config_store_path", sources.file.path, "option --config-file")
    for name, option in kind.options.items():
        for variable in (*option.also, kind.variable(option)):
            if (text := sources.environment.get(variable, "")).strip():
                yield _Given(name, text, f"environment variable {variable}")
    for name, option in kind.options.items():
        if option.key in sources.options:
            yield _Given(name, sources.options[option.key], f"option {option.argument}")


def _given_in(kind: ServerKind[Config], file: PropertiesFile, keys: Collection[str]) -> Iterator[_Given]:
    for each in file.properties:
        if each.key in keys:
            yield _Given(kind.field_of_key[each.key], each.value, f"line {each.line} of {file.path}")


def _homely_paths(
    kind: ServerKind[Config], values: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[tuple[str, str | None]]:
    """Yield the fields whose path begins with `~/`, and that path under the home folder; None without HOME."""
    for name, option in kind.options.items():
        path = values.get(name, getattr(kind.defaults, name))
        if isinstance(option.kind, FilePath) and path.startswith("~/"):
            yield name, _under_home(path, environment)


def _under_home(path: str, environment: Mapping[str, str]) -> str | None:
    home = environment.get("HOME", "")
    return home.rstrip("/") + path[1:] if home else None


def _unknown(kind: ServerKind[Config], file: PropertiesFile) -> tuple[Property, ...]:
    """Return the properties that are no options, each with its last value."""
    return tuple({each.key: each for each in file.properties if each.key not in kind.field_of_key}.values())


def _tls_file_keys(kind: ServerKind[Config]) -> Collection[str]:
    return {key for key in kind.field_of_key if key.startswith(_TLS_PREFIX)} - _NOT_IN_TLS_FILE


def _ignored_in(
    kind: ServerKind[Config], file: PropertiesFile, keys: Collection[str], otherwise: WhyIgnored
) -> Iterator[IgnoredKey]:
    last_line = {each.key: each.line for each in file.properties}
    for each in file.properties:
        if each.key not in kind.field_of_key:
            yield IgnoredKey(file.path, each.line, each.key, WhyIgnored.UNKNOWN, _similar_key(kind, each.key))
        elif each.key not in keys:
            yield IgnoredKey(file.path, each.line, each.key, otherwise)
        elif each.line != last_line[each.key]:
            yield IgnoredKey(file.path, each.line, each.key, WhyIgnored.REPEATED, str(last_line[each.key]))
        elif _is_set_in_vain(kind, each):
            yield IgnoredKey(file.path, each.line, each.key, WhyIgnored.NO_EFFECT)


def _is_set_in_vain(kind: ServerKind[Config], given: Property) -> bool:
    """Return whether an option without effect is set to another value than its default, which Java lists in files."""
    name = kind.field_of_key[given.key]
    option = kind.options[name]
    return not option.has_effect and option.kind.value_of(given.value) != getattr(kind.defaults, name)


def _similar_key(kind: ServerKind[Config], key: str) -> str:
    """Return the property that was probably meant, blank if none is near."""
    import difflib  # noqa: PLC0415  # 5 ms that a start without a misspelled key does not pay

    by_lower = {known.lower(): known for known in kind.field_of_key}
    near = difflib.get_close_matches(key.lower(), by_lower, n=1, cutoff=_SIMILARITY_LEAST)
    return by_lower[near[0]] if near else ""
