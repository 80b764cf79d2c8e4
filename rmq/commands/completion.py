"""`rmq completion`: the script by which a shell completes `rmq`, with the names of topics and brokers of the site."""

from typing import Literal

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_RMQ_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def print_completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the script, which ~/.bashrc takes by eval "$(rmq completion bash)".

    It offers names of topics, brokers and clusters as the NameServers of the environment or the profile know them.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has these three"
    command = click.get_current_context().find_root().command
    click.echo(kind(command, {}, "rmq", _VARIABLE).source())
