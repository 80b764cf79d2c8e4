"""getControllerMetaData: who leads."""

from typing import Final

from remoting.admin.controllers import controller_metadata
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _get(admin: Admin, line: CommandLine) -> None:
    found = await admin.call(line.needed("a"), controller_metadata())
    admin.printf("%n#ControllerGroup\t%s", found.group)
    admin.printf("%n#ControllerLeaderId\t%s", found.controller_leader_id)
    admin.printf("%n#ControllerLeaderAddress\t%s", found.controller_leader_address)
    # Java's split leaves out what is blank at the end.
    for peer in (found.peers or "").rstrip(";").split(";"):
        if peer:
            admin.printf("%n#Peer:\t%s", peer)
    admin.printf("%n")


GET_CONTROLLER_META_DATA: Final = MqadminCommand(
    options_of(value("a", "controllerAddress", "the address of controller", required=True)), _get
)
