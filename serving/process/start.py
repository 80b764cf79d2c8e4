"""From the command line to a running server, and an exit with a sentence if that fails.

Answers to `NamesrvStartup` and `ControllerStartup`, with their exit codes: 1 for an option that there is not, 255 for
anything else that prevents the start, a bad value among them. Nothing of asyncio is imported until there is something
to serve, so that `-h` and `-p` answer at once.
"""

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, Generic

import msgspec

from remoting.protocol.properties import listing_text
from serving.config.arguments import Arguments, parse
from serving.config.checks import ConfigError
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind, listed_properties
from serving.config.sources import (
    IgnoredKey,
    PropertiesFile,
    Sources,
    from_sources,
    ignored_keys,
    load_properties,
    load_tls_properties,
    tls_config_path,
)
from serving.durable_file import DurableFileError
from serving.process.system_limits import usable_memory_bytes, with_shares

#: Java's -1.
EXIT_START_FAILED: Final = 255
#: After so long a thread that renders metrics or the like lets the event loop go on; Python has 5 ms.
_SWITCH_S: Final = 0.001


class StartFailed(Exception):
    """The server cannot serve, for another reason than its configuration and its files; the text says why."""


class Start(msgspec.Struct, Generic[Config], frozen=True):
    config: Config
    #: Lines of its files that change nothing.
    ignored: tuple[IgnoredKey, ...]
    #: Path of the configuration file; blank for none.
    config_file: str


def requested_start(kind: ServerKind[Config]) -> Start[Config]:
    """Return the requested start; `-h`, `-p` and bad options exit. Raises ConfigError and DurableFileError."""
    environment = {"HOME": str(Path("~").expanduser()), **os.environ}
    arguments = parse(kind, sys.argv[1:], environment)
    sources = _sources(kind, arguments, environment)
    # What is listed is what is in force.
    config = with_shares(from_sources(kind, sources), usable_memory_bytes())
    if arguments.prints_config:
        _print(listing_text(listed_properties(kind, config)))
        sys.exit(0)
    return Start(config, ignored_keys(kind, sources), arguments.config_file)


@contextlib.contextmanager
def exiting_if_start_fails(kind: ServerKind[Config]) -> Iterator[None]:
    """Leave the process with a sentence if what is done here prevents the start."""
    try:
        yield
    except (ConfigError, DurableFileError, StartFailed, _NotPrinted) as error:
        print(f"{kind.program}: {error}", file=sys.stderr)  # noqa: T201  # before there are logs
        sys.exit(EXIT_START_FAILED)
    except ModuleNotFoundError as error:
        remedy = "pip install 'rocketmq-control-plane[server]'"
        print(f"{kind.program}: {error.name} is not installed: {remedy}", file=sys.stderr)  # noqa: T201  # as above
        sys.exit(EXIT_START_FAILED)


def run(config_file: str, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what `serve` makes until it ends, and ignore further signals that stop; raises StartFailed.

    What `serve` imports is not looked through by the collector again and again while it grows: the server turns the
    collector on when everything is there.
    """
    if config_file:
        # Java's line. Nobody may be there to read it, which is no reason not to serve.
        with contextlib.suppress(_NotPrinted):
            _print(f"load config properties file OK, {config_file}\n")
    # What servers keep, history and store, is for them and for root.
    os.umask(0o077)
    gc.disable()
    sys.setswitchinterval(_SWITCH_S)
    import uvloop  # noqa: PLC0415  # see the first lines of this module

    uvloop.run(serve())
    # Python takes its own handlers away while the interpreter ends, and the system's would give another exit status.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


class _NotPrinted(Exception):
    """Standard output takes nothing."""


def _sources(kind: ServerKind[Config], arguments: Arguments, environment: dict[str, str]) -> Sources:
    file = load_properties(arguments.config_file) if arguments.config_file else PropertiesFile()
    sources = Sources(options=arguments.options, environment=environment, file=file)
    return msgspec.structs.replace(sources, tls_file=load_tls_properties(tls_config_path(kind, sources)))


def _print(text: str) -> None:
    """Print at once; if that fails, nothing is left behind that would fail again at the exit."""
    try:
        os.write(sys.stdout.fileno(), text.encode())
    except OSError as error:
        raise _NotPrinted(str(error)) from error
