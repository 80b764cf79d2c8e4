"""updateKvConfig and deleteKvConfig: KV entries of every NameServer."""

from typing import Final

from remoting.admin.name_servers import delete_kv, put_kv
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _update(admin: Admin, line: CommandLine) -> None:
    await admin.at_each(admin.settings.namesrv, put_kv(line.needed("s"), line.needed("k"), line.needed("v")))
    admin.printf("create or update kv config to namespace success.%n")


async def _delete(admin: Admin, line: CommandLine) -> None:
    await admin.at_each(admin.settings.namesrv, delete_kv(line.needed("s"), line.needed("k")))
    admin.printf("delete kv config from namespace success.%n")


UPDATE_KV_CONFIG: Final = MqadminCommand(
    options_of(
        value("s", "namespace", "set the namespace", required=True),
        value("k", "key", "set the key name", required=True),
        value("v", "value", "set the key value", required=True),
    ),
    _update,
)
DELETE_KV_CONFIG: Final = MqadminCommand(
    options_of(
        value("s", "namespace", "set the namespace", required=True),
        value("k", "key", "set the key name", required=True),
    ),
    _delete,
)
