"""Configurations of servers, as mqadmin prints them: in the order of Java's properties."""

from collections.abc import Mapping, Sequence

from remoting.admin.admin_request import AdminRequest, command
from remoting.protocol.codes import RequestCode
from remoting.protocol.properties import PropertiesError, parse
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin
from rmq.mqadmin.java.hash_order import concurrent_order, string_order

#: Of the map of servers, which mqadmin makes so small.
_SERVERS_CAPACITY = 4


def configuration(code: RequestCode) -> AdminRequest[bytes]:
    """Request a whole configuration as it was written: of a broker (26), a NameServer (319), a controller (1010)."""
    return AdminRequest(command(code), lambda answer: answer.body)


def print_configuration(admin: Admin, text: bytes) -> None:
    """Print a configuration; raises CommandFailed for a text that Java would not read."""
    try:
        options = {each.key: each.value for each in parse(text)}
    except PropertiesError as error:
        raise CommandFailed(f"the answer is no configuration: {error}") from None
    for name in concurrent_order(options):
        admin.printf("%-50s=  %s%n", name, options[name])


async def print_configurations(admin: Admin, servers: Sequence[str], code: RequestCode) -> None:
    """Print the configuration of each of these servers; raises CommandFailed."""
    texts: Mapping[str, bytes] = {server: await admin.call(server, configuration(code)) for server in servers}
    for server in string_order(texts, _SERVERS_CAPACITY):
        admin.printf("============%s============%n", server)
        print_configuration(admin, texts[server])
