"""Starts a NameServer: options to configuration, then the service, and an exit with a sentence if that fails.

Answers to `NamesrvStartup`, with its exit codes: 1 for an option that there is not, 255 for anything else that prevents
the start, a bad value among them.
"""

import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from namesrv.arguments import Arguments, parse
from namesrv.config import NameServerConfig
from namesrv.config_checks import ConfigError
from namesrv.config_sources import IgnoredKey, PropertiesFile, Sources, from_sources, ignored_keys, tls_config_path
from namesrv.config_text import listed_properties
from namesrv.durable_file import DurableFileError
from namesrv.kv_config import KvConfig
from namesrv.state_files import load_kv_config, load_properties, load_tls_properties
from remoting.properties import listing_text

#: Java's -1.
EXIT_NOT_STARTED: Final = 255


def main() -> None:
    """Run `rmq-namesrv` until it is told to stop; leaves the process."""
    environment = {"HOME": str(Path("~").expanduser()), **os.environ}
    arguments = parse(sys.argv[1:], environment)
    try:
        sources = _sources(arguments, environment)
        config = from_sources(sources)
        if arguments.prints_config:
            _print_config(config)
        kv = load_kv_config(Path(config.kv_config_path))
    except (ConfigError, DurableFileError) as error:
        _leave(error)
    if arguments.config_file:
        # Java's line. Nobody may be there to read it, which is no reason not to serve.
        with contextlib.suppress(OSError):
            _print(f"load config properties file OK, {arguments.config_file}\n")
    _serve(config, kv, ignored_keys(sources))


def _sources(arguments: Arguments, environment: dict[str, str]) -> Sources:
    file = load_properties(arguments.config_file) if arguments.config_file else PropertiesFile()
    sources = Sources(options=arguments.options, environment=environment, file=file)
    return msgspec.structs.replace(sources, tls_file=load_tls_properties(tls_config_path(sources)))


def _serve(config: NameServerConfig, kv: KvConfig, ignored: tuple[IgnoredKey, ...]) -> None:
    """Load the rest and serve; what is not needed for `-h` and `-p` is imported here, so that they answer at once."""
    # What is imported stays: the collector need not look through it again and again while it grows. The service turns
    # it on when everything is there.
    gc.disable()
    import uvloop  # noqa: PLC0415

    from namesrv.service import NotStarted, serve  # noqa: PLC0415

    try:
        uvloop.run(serve(config, kv, ignored))
    except NotStarted as error:
        _leave(error)


def _print_config(config: NameServerConfig) -> NoReturn:
    try:
        _print(listing_text(listed_properties(config)))
    except OSError as error:
        _leave(error)
    sys.exit(0)


def _print(text: str) -> None:
    """Print at once; raises OSError, and then leaves nothing behind that would fail again at the exit."""
    os.write(sys.stdout.fileno(), text.encode())


def _leave(error: Exception) -> NoReturn:
    print(f"rmq-namesrv: {error}", file=sys.stderr)
    sys.exit(EXIT_NOT_STARTED)


if __name__ == "__main__":
    main()
