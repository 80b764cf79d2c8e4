"""A second kind of server, so that nothing of `serving/` is tried with the NameServer alone."""

from dataclasses import dataclass

from remoting.protocol.codes import RequestCode
from serving.config.options import ANY_VALUE, Whole, described, option
from serving.config.server_config import (
    CONFIG_BLACK_LIST,
    CONFIG_STORE_PATH,
    FRAME_BYTES_MAX,
    HTTP_PORT,
    LISTEN_PORT,
    ServerConfig,
)
from serving.config.server_kind import ServerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherConfig(ServerConfig):
    config_store_path: str = described("~/other/other.properties", CONFIG_STORE_PATH)
    config_black_list: str = described("configBlackList;configStorePath", CONFIG_BLACK_LIST)
    listen_port: int = described(1234, LISTEN_PORT)
    http_port: int = described(1235, HTTP_PORT)
    frame_bytes_max: int = described(1024 * 1024, FRAME_BYTES_MAX)
    least: int = option(1, "least", Whole(0, 9), "The least.", ANY_VALUE)
    most: int = option(5, "most", Whole(0, 9), "The most.", ANY_VALUE)


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
