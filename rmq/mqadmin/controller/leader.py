"""The controller that leads, by any of its group."""

from remoting.admin.controllers import controller_metadata
from rmq.failures import NotReachable
from rmq.mqadmin.admin import Admin


async def leader_of(admin: Admin, controller: str) -> str:
    """Return the address of the leader; raises CommandFailed."""
    leader = (await admin.call(controller, controller_metadata())).controller_leader_address
    if not leader:
        raise NotReachable(f"{controller}: no controller leads now")
    return leader
