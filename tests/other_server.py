"""A second kind of server, so that nothing of `serving/` is tried with the NameServer alone."""

from dataclasses import dataclass
from typing import Annotated

from remoting.protocol.codes import RequestCode
from serving.config.options import ANY_VALUE, Option, Whole
from serving.config.server_config import (
    ConfigBlackList,
    ConfigStorePath,
    FrameBytesMax,
    HttpPort,
    ListenPort,
    ServerConfig,
)
from serving.config.server_kind import ServerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherConfig(ServerConfig):
    config_store_path: ConfigStorePath = "~/other/other.properties"
    config_black_list: ConfigBlackList = "configBlackList;configStorePath"
    listen_port: ListenPort = 1234
    http_port: HttpPort = 1235
    frame_bytes_max: FrameBytesMax = 1024 * 1024
    least: Annotated[int, Option("least", Whole(0, 9), "The least.", ANY_VALUE)] = 1
    most: Annotated[int, Option("most", Whole(0, 9), "The most.", ANY_VALUE)] = 5


def conflicts(config):
    if config.least > config.most:
        yield "least", f"at most most, which is {config.most}"


OTHER = ServerKind(
    name="other server",
    program="rmq-other",
    variable_prefix="RMQ_OTHER_",
    metric_prefix="rocketmq_other_",
    id_key="other_id",
    id_meaning="Host name and port of this other server.",
    requests=(RequestCode.BROKER_HEARTBEAT,),
    config_class=OtherConfig,
    conflicts=conflicts,
)
