"""What a command of mqadmin works with: the servers, and where its output goes."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from remoting.admin import admin_request
from remoting.admin.admin_request import AdminRequest
from remoting.admin.routes import cluster_view, route_view, topics_view
from remoting.protocol.addresses import is_address
from remoting.protocol.codes import RequestCode
from remoting.protocol.properties import PropertiesError, parse
from remoting.protocol.shapes.namesrv import ClusterInfo
from remoting.protocol.shapes.route import MASTER_ID, BrokerData, TopicRouteData
from rmq.failures import CommandFailed, NotReachable, PartlyDone, UnknownName, WrongUse
from rmq.mqadmin.java.hash_order import concurrent_order, hash_map_order, long_hash, string_order
from rmq.mqadmin.java.options import CommandLine, CommandOption, CommandOptions, ExclusiveOptions, options_of, usage_of
from rmq.mqadmin.java.texts import Value, java_format
from rmq.output.printable import printable
from rmq.site.settings import SiteSettings
from rmq.site.site import Site

Found = TypeVar("Found")

#: How names of topics begin of which a group has its own.
RETRY: Final = "%RETRY%"
DLQ: Final = "%DLQ%"

_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
#: mqadmin prints it without a line end, and goes on.
_NO_CLUSTER: Final = "[error] Make sure the specified clusterName exists or the name server connected to is correct."
_INTERVAL_S: Final = 3
#: Of the map of servers, which mqadmin makes so small.
_SERVERS_CAPACITY: Final = 4


class MqadminCommand(NamedTuple):
    """One command: its options, and what it does."""

    options: CommandOptions
    run: "Work"


#: By the name in mqadmin: those of the modules that are imported.
COMMANDS: Final[dict[str, MqadminCommand]] = {}


def command(name: str, *options: CommandOption | ExclusiveOptions) -> "Callable[[Work], Work]":
    """Let a function be the command of mqadmin with this name and these options, beside those that all have."""

    def added(run: Work) -> Work:
        COMMANDS[name] = MqadminCommand(options_of(*options), run)
        return run

    return added


class Admin:
    def __init__(self, site: Site, name: str, options: CommandOptions) -> None:
        self.site = site
        self._name = name
        self._options = options
        self._failures: list[CommandFailed] = []
        #: Whether a server has answered a request that was sent to it alone.
        self._is_answered = False
        #: Where changes of several servers are done.
        self._done: list[str] = []

    @property
    def settings(self) -> SiteSettings:
        return self.site.settings

    def printf(self, form: str, *values: Value) -> None:
        sys.stdout.write(java_format(form, *values))

    def print_heads(self, form: str, titles: str) -> None:
        """Write the titles of columns, which stand between bars."""
        self.printf(form, *titles.split("|"))

    def write(self, text: str) -> None:
        sys.stdout.write(text)

    def print_usage(self) -> None:
        """Write the usage, as mqadmin does where it has nothing to do."""
        sys.stdout.write(usage_of(self._name, self._options))

    def note_failure(self, failure: CommandFailed) -> None:
        """Write why one of several requests failed; the command goes on, and ends with a code of its own."""
        sys.stdout.flush()
        sys.stderr.write(f"rmq: {printable(str(failure))}\n")
        self._failures.append(failure)

    def note_answer(self) -> None:
        """Take something as shown or done: failures beside it leave the command partly done."""
        self._is_answered = True

    def check_done(self) -> None:
        """Raise PartlyDone if a failure was noted, and one with the code of the failures if all requests failed."""
        if not self._failures:
            return
        if self._is_answered:
            raise PartlyDone(f"{len(self._failures)} of the requests failed")
        answered = (each for each in self._failures if not isinstance(each, NotReachable))
        raise type(next(answered, self._failures[0]))("no request succeeded")

    async def at_name_server(self, request: AdminRequest[Found]) -> Found:
        """Return what the first NameServer answers that gives a result; raises CommandFailed."""
        return (await self.site.first_answer(request)).result

    async def call(self, address: str, request: AdminRequest[Found]) -> Found:
        """Return what one server answers; raises CommandFailed."""
        if not is_address(address):
            raise WrongUse(f"{address or 'nothing'} is not the host:port of a server")
        found = await self.site.call(address, request)
        self._is_answered = True
        return found

    async def change(self, address: str, request: AdminRequest[Found]) -> Found:
        """Send a change to one of several servers, or one of several changes; raises CommandFailed."""
        found = await self.call(address, request)
        self.note_change(address)
        return found

    def note_change(self, address: str) -> None:
        """Take a change as done at a server: a failure after it names the server."""
        self._done.append(address)

    async def at_all(
        self, addresses: Sequence[str], request: AdminRequest[None], note: Callable[[str], None] = lambda _: None
    ) -> None:
        """Send a change to each of these, one after the other; raises CommandFailed at the first failure.

        `note` gets each address where it is done.
        """
        for address in addresses:
            await self.change(address, request)
            note(address)

    async def at_broker_or_cluster(
        self, line: CommandLine, request: AdminRequest[None], done: str, *, slaves_too: bool = False
    ) -> bool:
        """Send a change to the broker of `-b`, or else to the masters of the cluster of `-c`; False without either.

        `done` is printed with each address where it is done. A failure of one of a cluster is noted, and the others go
        on.
        """
        address, cluster = line.text("b"), line.text("c")
        if address is not None:
            await self.call(address, request)
            self.printf(done, address)
        elif cluster is not None:
            for each in await (self.members_of(cluster) if slaves_too else self.masters_of(cluster)):
                try:
                    await self.call(each, request)
                    self.printf(done, each)
                except CommandFailed as failure:
                    self.note_failure(failure)
        return address is not None or cluster is not None

    async def at_each(self, addresses: Sequence[str], request: AdminRequest[Found]) -> Found | None:
        """Send a change to all of these, also after a refusal; returns the last result, raises the last failure."""
        found, failure = None, None
        for address in addresses:
            try:
                found = await self.change(address, request)
            except CommandFailed as error:
                failure = error
                if isinstance(error, NotReachable):
                    break
        if failure is not None:
            raise failure
        return found

    def after_changes(self, failure: CommandFailed) -> CommandFailed:
        """Return the failure of the command, with where changes before it are done."""
        places = ", ".join(dict.fromkeys(self._done))
        return PartlyDone(f"{failure}; done at {places}") if places else failure

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic; raises CommandFailed."""
        return await self.at_name_server(route_view(topic))

    async def topics(self) -> list[str]:
        """Return the names of all topics, in the order of Java's set; raises CommandFailed."""
        found = await self.at_name_server(topics_view())
        return string_order(found)

    async def groups_of(self, address: str, topic: str) -> list[str]:
        """Return the groups of a topic at a broker, in the order of Java's set; raises CommandFailed."""
        from remoting.admin.group_views import groups_view  # noqa: PLC0415  # many shapes: 10 ms

        found = await self.call(address, groups_view(topic))
        return string_order(found)

    async def cluster(self) -> ClusterInfo:
        """Return all brokers; raises CommandFailed."""
        return await self.at_name_server(cluster_view())

    async def masters_of(self, cluster: str) -> list[str]:
        """Return the addresses of a cluster's masters; of an unknown one none, which is printed."""
        found = [each.broker_addrs.get(MASTER_ID) for each in await self.sets_of(cluster)]
        return string_order([each for each in found if each is not None])

    async def members_of(self, cluster: str) -> list[str]:
        """Return the addresses of all brokers of a cluster; of an unknown one none, which is printed."""
        return string_order([address for each in await self.sets_of(cluster) for address in members_in(each)])

    async def names_of(self, cluster: str) -> list[str]:
        """Return the names of a cluster's broker sets; raises UnknownName."""
        names = (await self.cluster()).cluster_addr_table.get(cluster)
        if not names:
            raise UnknownName(f"no cluster {cluster}: make sure that it exists, and that -n names its NameServers")
        return string_order(names)

    async def sets_of(self, cluster: str) -> list[BrokerData]:
        """Return the broker sets of a cluster; of an unknown one none, which is printed."""
        info = await self.cluster()
        names = info.cluster_addr_table.get(cluster)
        if names is None:
            self.printf(_NO_CLUSTER)
            return []
        found = [info.broker_addr_table.get(name) for name in string_order(names)]
        return [each for each in found if each is not None]

    async def repeatedly(self, line: CommandLine, work: Callable[[], Awaitable[None]]) -> None:
        """Do something once, or with `-i` every so many seconds until the process is interrupted."""
        await work()
        while line.has("i"):
            sys.stdout.flush()
            await asyncio.sleep(integer(line, "i", _INTERVAL_S))
            await work()


Work = Callable[[Admin, CommandLine], Awaitable[None]]


def members_in(broker_set: BrokerData) -> list[str]:
    """Return the addresses of a broker set, in the order of Java's map."""
    return [broker_set.broker_addrs[each] for each in hash_map_order(broker_set.broker_addrs, long_hash)]


def address_in(broker_set: BrokerData) -> str | None:
    """Return the address of a set's master, or while there is none of another broker: mqadmin takes any of them."""
    addresses = broker_set.broker_addrs
    return addresses.get(MASTER_ID) or next((addresses[each] for each in sorted(addresses)), None)


def addresses_in(broker_sets: Iterable[BrokerData]) -> list[str]:
    return [found for each in broker_sets if (found := address_in(each)) is not None]


def switch_value(line: CommandLine, name: str, default: bool) -> bool:  # noqa: FBT001  # a value, not a switch
    """Return whether an option says `true`, in any case; all else is false, as in Java."""
    text = line.text(name)
    return default if text is None else text.lower() == "true"


def integer(line: CommandLine, name: str, default: int) -> int:
    """Return the number of an option, of 32 bits; raises WrongUse."""
    return _number(line, name, default, _INT_MAX)


def long_integer(line: CommandLine, name: str, default: int) -> int:
    """Return the number of an option, of 64 bits; raises WrongUse."""
    return _number(line, name, default, _LONG_MAX)


def _number(line: CommandLine, name: str, default: int, most: int) -> int:
    text = line.text(name)
    if text is None:
        return default
    if not (_NUMBER.fullmatch(text) and -most - 1 <= int(text) <= most):
        raise WrongUse(f"-{name}: {text or 'nothing'} is not a number from {-most - 1} to {most}")
    return int(text)


def configuration(code: RequestCode) -> AdminRequest[bytes]:
    """Request a whole configuration as it was written: of a broker (26), a NameServer (319), a controller (1010)."""
    return AdminRequest(admin_request.command(code), lambda answer: answer.body)


def print_configuration(admin: Admin, text: bytes) -> None:
    """Print a configuration; raises CommandFailed for a text that Java would not read."""
    try:
        options = {each.key: each.value for each in parse(text)}
    except PropertiesError as error:
        raise CommandFailed(f"the answer is not a configuration: {error}") from None
    for name in concurrent_order(options):
        admin.printf("%-50s=  %s%n", name, options[name])


async def print_configurations(admin: Admin, servers: Sequence[str], code: RequestCode) -> None:
    """Print the configuration of each of these servers; raises CommandFailed."""
    texts: Mapping[str, bytes] = {server: await admin.call(server, configuration(code)) for server in servers}
    for server in string_order(texts, _SERVERS_CAPACITY):
        admin.printf("============%s============%n", server)
        print_configuration(admin, texts[server])
