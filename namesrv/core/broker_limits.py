"""How many brokers are kept, of one connection and of all, so that nobody fills the tables with made-up ones.

Java has no limit. A broker registers itself, a BrokerContainer its few brokers over one connection. The limit of all is
not first come, first served: each connection may have a few brokers though others have registered as many as there may
be, and there are not more connections than connectionsMax. Pure: reads the table, changes nothing.
"""

from typing import Final

from namesrv.core.tables.live_table import LiveKey, LiveTable
from namesrv.refusals import TooManyBrokers

#: A connection has so many brokers whatever others have, within its own limit.
GUARANTEED_PER_CONNECTION: Final = 8


def check_limits(
    live: LiveTable, key: LiveKey, connection_id: int, *, of_a_connection_max: int, brokers_max: int
) -> None:
    """Raise TooManyBrokers if a broker is new on a connection and there are too many.

    Over a connection of its own a broker may always register again. Over another one it counts as new, or brokers that
    are handed on from one connection to the next would make room for more without end.
    """
    row = live.get(key)
    if row is not None and connection_id in row.connections:
        return
    count = live.count_of_connection(connection_id)
    if count >= of_a_connection_max:
        raise TooManyBrokers(f"this connection has {count} brokers, which is the limit (brokersPerConnectionMax)")
    if count >= GUARANTEED_PER_CONNECTION and len(live) >= brokers_max:
        raise TooManyBrokers(
            f"there are {len(live)} brokers, and the limit is {brokers_max} (brokersMax); beyond it a connection has "
            f"{GUARANTEED_PER_CONNECTION} at most"
        )
