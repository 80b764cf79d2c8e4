"""What a shell offers for the word at hand, and the script by which it asks for it.

Names are those of the site, right now. One with characters that a shell would obey is not offered: anybody who may
create a topic could run commands here.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal

import click
from click.shell_completion import get_completion_class

from remoting.admin.admin_request import AdminRequest
from remoting.admin.routes import all_topics, cluster_brokers
from remoting.protocol.group_kinds import is_system_group
from rmq.cli.profiles import settings_in
from rmq.failures import CommandFailed
from rmq.site.brokers import masters, places
from rmq.site.settings import SiteSettings
from rmq.site.site import Found, Site

_VARIABLE = "_RMQ_COMPLETE"
NAMES_MAX: Final = 500
#: Nobody waits longer for a shell.
TIMEOUT_S: Final = 1.0
#: One that begins like an option would be taken for one: --yes.
_SAFE: Final = re.compile(r"(?!-)[\w%.:@+-]+")


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def print_completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the completion script; in ~/.bashrc: eval "$(rmq completion bash)".

    It completes names of topics, brokers and clusters from the NameServers of the environment or the profile.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has these three"
    command = click.get_current_context().find_root().command
    click.echo(kind(command, {}, "rmq", _VARIABLE).source())


def topic_names(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """Return the topics that begin so; none if no NameServer answers."""
    return _offered(context, begin, all_topics(), lambda topics: topics)


def broker_names(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    return _offered(context, begin, cluster_brokers(), lambda brokers: brokers.broker_sets)


def cluster_names(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    return _offered(context, begin, cluster_brokers(), lambda brokers: brokers.clusters)


def group_names(context: click.Context, _: click.Parameter, begin: str) -> list[str]:
    """Return the groups that begin so, of all masters that answer in time."""
    try:
        found = asyncio.run(_groups(settings_in(context)))
    except (CommandFailed, TimeoutError):
        return []
    return _safe(found, begin)


def _offered(
    context: click.Context, begin: str, request: AdminRequest[Found], names_in: Callable[[Found], Iterable[str]]
) -> list[str]:
    try:
        found = asyncio.run(_first(settings_in(context), request))
    except (CommandFailed, TimeoutError):
        return []
    return _safe(names_in(found), begin)


def _safe(names: Iterable[str], begin: str) -> list[str]:
    return sorted(each for each in names if each.startswith(begin) and _SAFE.fullmatch(each))[:NAMES_MAX]


async def _groups(settings: SiteSettings) -> set[str]:
    from remoting.admin.groups import configured_groups  # noqa: PLC0415  # 8 ms, and all commands load this module

    site = Site(settings)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            found = masters(places(await site.cluster()))
            answers = await site.answers((each.address for each in found), configured_groups())
            return {name for each in answers if each.error is None for name in each.result if not is_system_group(name)}
    finally:
        await site.close()


async def _first(settings: SiteSettings, request: AdminRequest[Found]) -> Found:
    site = Site(settings)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return (await site.first_answer(request)).result
    finally:
        await site.close()
