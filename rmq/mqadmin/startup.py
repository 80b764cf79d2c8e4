"""`rmq mqadmin NAME OPTIONS`: finds the command, reads its options and runs it, as `MQAdminStartup` does."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

import click
import msgspec

from rmq.cli.options import given_options
from rmq.cli.profiles import profile_of
from rmq.failures import CommandFailed, ExitCode, NotSupportedThere
from rmq.mqadmin.admin import COMMANDS, Admin, MqadminCommand
from rmq.mqadmin.java.options import CommandLine, OptionsError, read_words, usage_of
from rmq.mqadmin.java.texts import java_format
from rmq.mqadmin.table import ALIASES, MQADMIN_COMMANDS
from rmq.output.printable import printable
from rmq.site.access import keys_of
from rmq.site.settings import SiteSettings, settings_of
from rmq.site.site import Site

#: What mqadmin exits with where it cannot read the options; all else it ends with 0.
_NOT_READ: Final = 1
_KEYS: Final = Path("conf", "tools.yml")
_HOME: Final = "ROCKETMQ_HOME"

_HELP: Final = 2


@click.command(
    "mqadmin",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def mqadmin(words: Sequence[str]) -> int:
    """Run a command of mqadmin 5.5.0 with its options; prints what mqadmin prints. Without a name: all commands."""
    if not words:
        sys.stdout.write(_all_commands())
        return ExitCode.DONE
    if len(words) == _HELP and words[0] == "help":
        return _help(words[1])
    name = _name_of(words[0])
    if name is None:
        return _unknown(words[0])
    command = _command(name)
    try:
        line = read_words(command.options, words[1:])
    except OptionsError as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        sys.stdout.write(usage_of(name, command.options))
        return _NOT_READ
    if line.has("h"):
        sys.stdout.write(usage_of(name, command.options))
        return ExitCode.DONE
    asyncio.run(_run(name, command, line))
    return ExitCode.DONE


async def _run(name: str, command: MqadminCommand, line: CommandLine) -> None:
    site = Site(_settings(line))
    try:
        admin = Admin(site, name, command.options)
        try:
            await command.run(admin, line)
            admin.check_done()
        except CommandFailed as failure:
            raise admin.after_changes(failure) from None
    finally:
        for address, sentence in site.odd.items():
            sys.stderr.write(f"rmq: {printable(address)}: {printable(sentence)}\n")
        await site.close()


def _settings(line: CommandLine) -> SiteSettings:
    options = dict(given_options(click.get_current_context()))
    if (name_servers := line.text("n")) is not None:
        options["namesrv"] = name_servers
    settings = settings_of(options, os.environ, profile_of(options.get("profile"), os.environ))
    if settings.access_key_file or settings.access_key:
        return settings
    return _with_keys_of_tools(settings, os.environ)


def _with_keys_of_tools(settings: SiteSettings, environment: Mapping[str, str]) -> SiteSettings:
    """Return the settings with the keys of mqadmin's own file, if there are any."""
    home = environment.get(_HOME)
    file = Path(home) / _KEYS if home else None
    if file is None or not file.is_file():
        return settings
    keys = keys_of(file)
    if keys is None:
        return settings
    return msgspec.structs.replace(settings, access_key=keys.access_key, secret_key=keys.secret_key)


def _name_of(word: str) -> str | None:
    wanted = word.lower()
    return next((name for name in MQADMIN_COMMANDS if wanted in _names_of(name)), None)


def _names_of(name: str) -> set[str]:
    return {each.lower() for each in (name, ALIASES.get(name)) if each}


def _command(name: str) -> MqadminCommand:
    """Import a command; raises NotSupportedThere for one that is not here."""
    module = MQADMIN_COMMANDS[name].module
    if module is None:
        raise NotSupportedThere(f"{name} is not part of rmq mqadmin: use RocketMQ's own mqadmin")
    import_module(f"rmq.mqadmin.{module}")
    return COMMANDS[name]


def _help(word: str) -> int:
    name = _name_of(word)
    if name is None:
        return _unknown(word)
    sys.stdout.write(usage_of(name, _command(name).options))
    return ExitCode.DONE


def _unknown(word: str) -> int:
    sys.stdout.write(java_format("The sub command %s not exist.%n", word))
    return ExitCode.DONE


def _all_commands() -> str:
    lines = (java_format("   %-35s %s%n", name, entry.summary) for name, entry in MQADMIN_COMMANDS.items())
    return (
        "The most commonly used mqadmin commands are:\n"
        f"{''.join(lines)}\nSee 'mqadmin help <command>' for more information on a specific command.\n"
    )
