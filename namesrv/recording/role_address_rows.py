"""Which role addresses clients get for masters, and when each led to another one, as rows of the history."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from history.schemas import ROLE_ADDRESS
from namesrv.core.role_addresses.checks import AddressMove
from namesrv.core.role_addresses.rules import RoleAddressRule
from namesrv.core.route_state import RouteState
from remoting.protocol.shapes.route import MASTER_ID


class RoleAddressEvent(NamedTuple):
    """Something happened to the role address of a master; see the event types of ROLE_ADDRESS."""

    event_type: Literal["given", "leads", "withdrawn"]
    broker: BrokerRef
    role_address: str
    is_checked: bool
    former_addr: str | None = None

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield one row."""
        yield maker.row(
            ROLE_ADDRESS,
            self.event_type,
            moment,
            self.broker,
            role_address=self.role_address,
            is_checked=self.is_checked,
            former_addr=self.former_addr,
        )


class GivenRoleAddresses:
    """The role addresses of masters that are recorded as given, compared with those of now."""

    def __init__(self, state: RouteState) -> None:
        self._state = state
        #: By set and address.
        self._given: dict[tuple[str, str], RoleAddressEvent] = {}

    def changes(self) -> list[RoleAddressEvent]:
        """Return what clients get since the last call, and what they do not any more.

        Of a set without brokers nothing new is returned: there is no route in which clients could get it.
        """
        now = {(rule.set_name, str(rule.master)): rule for rule in self._state.role_addresses.given_of_masters()}
        withdrawn = [self._given.pop(key) for key in sorted(self._given.keys() - now.keys())]
        new: list[RoleAddressEvent] = []
        for key in sorted(now.keys() - self._given.keys()):
            if (event := self._given_event(now[key])) is not None:
                self._given[key] = event
                new.append(event)
        return [*(event._replace(event_type="withdrawn") for event in withdrawn), *new]

    def all(self) -> list[RoleAddressEvent]:
        """Return what is recorded as given."""
        return list(self._given.values())

    def moved(self, move: AddressMove) -> RoleAddressEvent | None:
        """Return that an address led to a master; None for that of a slave, and where the set has left meanwhile."""
        name, broker_id, address = move.use
        broker_set = self._state.tables.brokers.get(name)
        if broker_id != MASTER_ID or broker_set is None:
            return None
        broker = BrokerRef(broker_set.cluster, name, MASTER_ID, move.target)
        return RoleAddressEvent("leads", broker, address, is_checked=True, former_addr=move.former)

    def _given_event(self, rule: RoleAddressRule) -> RoleAddressEvent | None:
        broker_set = self._state.tables.brokers.get(rule.set_name)
        if broker_set is None:
            return None
        broker = BrokerRef(broker_set.cluster, rule.set_name, MASTER_ID)
        return RoleAddressEvent("given", broker, str(rule.master), rule.is_verified)
