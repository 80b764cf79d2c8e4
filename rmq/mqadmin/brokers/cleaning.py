"""cleanExpiredCQ, cleanUnusedTopic and deleteExpiredCommitLog."""

from typing import Final

from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import clean_expired_queues, clean_unused_topics, delete_expired_commit_logs
from rmq.failures import WrongUse
from rmq.mqadmin.admin import Admin, MqadminCommand, members_in
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _clean_queues(admin: Admin, line: CommandLine) -> None:
    await _clean(admin, line, clean_expired_queues())


async def _clean_topics(admin: Admin, line: CommandLine) -> None:
    await _clean(admin, line, clean_unused_topics())


async def _delete_logs(admin: Admin, line: CommandLine) -> None:
    await _clean(admin, line, delete_expired_commit_logs())


async def _clean(admin: Admin, line: CommandLine, request: AdminRequest[None]) -> None:
    address = line.text("b")
    addresses = [address] if address is not None else await _members(admin, line.text("c"))
    await admin.at_all(addresses, request)
    # mqadmin prints no line end.
    admin.printf("success" if addresses else "false")


async def _members(admin: Admin, cluster: str | None) -> list[str]:
    """Return the brokers of a cluster, or of all; of an unknown one none. Raises WrongUse for a blank name."""
    if cluster == "":
        # An unset variable of a script: mqadmin goes to all clusters then.
        raise WrongUse("-c: the name of the cluster is blank; without -c it is all clusters")
    info = await admin.cluster()
    clusters = [cluster] if cluster is not None else list(info.cluster_addr_table)
    names = [name for each in clusters for name in info.cluster_addr_table.get(each, ())]
    found = [info.broker_addr_table.get(name) for name in names]
    return [address for each in found if each is not None for address in members_in(each)]


CLEAN_EXPIRED_CQ: Final = MqadminCommand(
    options_of(value("b", "brokerAddr", "Broker address"), value("c", "cluster", "clustername")), _clean_queues
)
CLEAN_UNUSED_TOPIC: Final = MqadminCommand(
    options_of(value("b", "brokerAddr", "Broker address"), value("c", "cluster", "cluster name")), _clean_topics
)
DELETE_EXPIRED_COMMIT_LOG: Final = MqadminCommand(
    options_of(
        value("n", "namesrvAddr", "Name server address"),
        value("b", "brokerAddr", "Broker address"),
        value("c", "cluster", "clustername"),
    ),
    _delete_logs,
)
