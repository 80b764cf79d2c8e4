"""The options of the console in the browser (docs/console.md); Java's servers have none."""

from dataclasses import dataclass
from typing import Final

from serving.config.console_peers import ConsolePeerList
from serving.config.options import NAMES_A_FILE, FilePath, Fixed, Flag, NamedAddressList, option

#: Option with the path of the file of the token that lets its holders read.
READER_PROPERTY: Final = "consoleReadTokenFile"

_WHO: Final = Fixed("it decides who may use the console")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleConfig:
    """Options of a server with a console. All are read by process.py, which hands them to serving/http/console."""

    console_enable: bool = option(
        True, "consoleEnable", Flag(), "Serve the console for browsers at /ui/ of the HTTP views.", _WHO
    )
    console_hosts: str = option(
        "",
        "consoleHosts",
        NamedAddressList(),
        "Names and addresses at which clients reach the HTTP side, beside loopback and the server's own address, "
        "with a ';' between: names of a proxy or a load balancer. Whoever opens the console there has to sign in.",
        _WHO,
    )
    console_read_token_file: str = option(
        "",
        READER_PROPERTY,
        FilePath(),
        "File whose first line, of 16 characters or more, is the token that opens the console for reading. It is "
        "read again when it changes. If it is set, the console needs a sign-in on loopback too.",
        NAMES_A_FILE,
    )
    console_peers: str = option(
        "",
        "consolePeers",
        ConsolePeerList(),
        "Other servers that the console shows: namesrv=http://host:9880;controller=http://host:9881;"
        "offsets=http://host:9883. Requests of the console that change something there carry the admin token of "
        "its session, so name your own servers only.",
        Fixed("it is where the console sends requests"),
    )
