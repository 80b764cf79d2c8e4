"""Commands of mqadmin about NameServers."""

from collections.abc import Callable

from remoting.admin.admin_request import AdminRequest
from remoting.admin.configuration import update_config
from remoting.admin.name_servers import add_write_perm, delete_kv, put_kv, wipe_write_perm
from remoting.protocol.codes import RequestCode
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, command, print_configurations
from rmq.mqadmin.java.options import CommandLine, value


@command("getNamesrvConfig")
async def _get_namesrv_config(admin: Admin, _: CommandLine) -> None:
    await print_configurations(admin, admin.settings.namesrv, RequestCode.GET_NAMESRV_CONFIG)


@command(
    "updateNamesrvConfig",
    value("k", "key", "config key", required=True),
    value("v", "value", "config value", required=True),
)
async def _update_namesrv_config(admin: Admin, line: CommandLine) -> None:
    key, text = line.needed("k"), line.needed("v")
    await admin.at_each(admin.settings.namesrv, update_config("namesrv", {key: text}))
    given = f"[{', '.join(admin.settings.namesrv)}]" if line.has("n") else ""
    admin.printf("update name server config success!%s%n%s : %s%n", given, key, text)


@command(
    "updateKvConfig",
    value("s", "namespace", "set the namespace", required=True),
    value("k", "key", "set the key name", required=True),
    value("v", "value", "set the key value", required=True),
)
async def _update_kv_config(admin: Admin, line: CommandLine) -> None:
    await admin.at_each(admin.settings.namesrv, put_kv(line.needed("s"), line.needed("k"), line.needed("v")))
    admin.printf("create or update kv config to namespace success.%n")


@command(
    "deleteKvConfig",
    value("s", "namespace", "set the namespace", required=True),
    value("k", "key", "set the key name", required=True),
)
async def _delete_kv_config(admin: Admin, line: CommandLine) -> None:
    await admin.at_each(admin.settings.namesrv, delete_kv(line.needed("s"), line.needed("k")))
    admin.printf("delete kv config from namespace success.%n")


@command("wipeWritePerm", value("b", "brokerName", "broker name", required=True))
async def _wipe_write_perm(admin: Admin, line: CommandLine) -> None:
    await _change(admin, line.needed("b"), "wipe", wipe_write_perm)


@command("addWritePerm", value("b", "brokerName", "broker name", required=True))
async def _add_write_perm(admin: Admin, line: CommandLine) -> None:
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
