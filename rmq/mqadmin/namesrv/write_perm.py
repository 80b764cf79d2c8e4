"""wipeWritePerm and addWritePerm: the write permission of a broker set at every NameServer."""

from collections.abc import Callable
from typing import Final

from remoting.admin.admin_request import AdminRequest
from remoting.admin.name_servers import add_write_perm, wipe_write_perm
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _wipe(admin: Admin, line: CommandLine) -> None:
    await _change(admin, line.needed("b"), "wipe", wipe_write_perm)


async def _add(admin: Admin, line: CommandLine) -> None:
    await _change(admin, line.needed("b"), "add", add_write_perm)


async def _change(admin: Admin, broker: str, verb: str, request: Callable[[str], AdminRequest[int]]) -> None:
    for address in admin.settings.namesrv:
        what = f"{verb} write perm of broker[%s] in name server[%s]"
        try:
            count = await admin.call(address, request(broker))
        except CommandFailed as failure:
            admin.printf(f"{what} Failed%n", broker, address)
            admin.note_failure(failure)
        else:
            admin.printf(f"{what} OK, %d%n", broker, address, count)


WIPE_WRITE_PERM: Final = MqadminCommand(options_of(value("b", "brokerName", "broker name", required=True)), _wipe)
ADD_WRITE_PERM: Final = MqadminCommand(options_of(value("b", "brokerName", "broker name", required=True)), _add)
