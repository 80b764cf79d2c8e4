"""The network side of this host, for all addresses of a set together."""

from collections.abc import Iterable

from remoting.background_tasks import all_results
from role_agent.network.addresses import AddressTable, RoleAddress
from role_agent.network.client_notices import notify
from role_agent.network.neighbours import Neighbours
from role_agent.network.sessions import Session, close_connections_at, close_sessions


class HostNetwork:
    """Adds, removes and announces addresses of one interface; each method raises OSError where the kernel refuses."""

    def __init__(self, interface: str, addresses: tuple[RoleAddress, ...], ha_port: int | None) -> None:
        """Serve these addresses, on the interface of that name; `ha_port` is where slaves of the broker connect."""
        self._addresses = addresses
        self._ha_port = ha_port
        self._table = AddressTable(interface)
        self._neighbours = Neighbours(interface)

    def add(self, lifetime_s: int) -> None:
        """Add all addresses or renew them; the kernel removes them after their lifetime."""
        for address in self._addresses:
            self._table.add(address, lifetime_s)

    def remove(self) -> None:
        """Remove all addresses, those that are not there too."""
        failures = [failure for failure in map(self._failure_to_remove, self._addresses) if failure is not None]
        if failures:
            raise failures[0]

    def lifetime_s(self) -> int | None:
        """Return for how many seconds at least one of the addresses is there; None if none is."""
        found = [lifetime for each in self._addresses if (lifetime := self._table.lifetime_s(each)) is not None]
        return max(found, default=None)

    def announce(self) -> None:
        """Tell all neighbours once that the addresses are here."""
        for address in self._addresses:
            self._neighbours.announce(address.ip)

    async def owner(self) -> tuple[RoleAddress, str] | None:
        """Return the first address that another host answers for, with that host's MAC; None if there is none."""
        owners = await all_results(self._neighbours.owner_of(each.ip) for each in self._addresses)
        found = zip(self._addresses, owners, strict=True)
        return next(((address, owner) for address, owner in found if owner is not None), None)

    def close_sessions(self) -> list[Session]:
        """Close all TCP connections to the addresses, and return them."""
        return [session for address in self._addresses for session in close_sessions(address.ip)]

    def close_ha_connections(self) -> int:
        """Close the connections of the broker's slaves, and return how many; 0 where their port is not known."""
        return close_connections_at(self._ha_port) if self._ha_port else 0

    def notify_clients(self, sessions: Iterable[Session]) -> None:
        """Have the clients of closed connections notice that these have ended."""
        notify(sessions)

    def _failure_to_remove(self, address: RoleAddress) -> OSError | None:
        try:
            self._table.remove(address)
        except OSError as error:
            return error
        return None
