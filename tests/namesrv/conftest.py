"""A NameServer without sockets: the request table over real tables and real files, and a clock that stands still."""

import inspect

import pytest
from fakes.clock import FakeClock

from namesrv.core.route_state import RouteState
from namesrv.settings.config import NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from namesrv.settings.kv_config import KvConfig
from namesrv.wire.broker_requests import BrokerRequestHandler
from namesrv.wire.cooperative_runner import CooperativeRunner
from namesrv.wire.operator_requests import OperatorRequestHandler
from namesrv.wire.request_table import RequestTable
from namesrv.wire.route_requests import RouteRequestHandler
from remoting.protocol.codes import SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader
from remoting.server.response_cache import PreparedResponse


class Peer:
    """The other end of a connection."""

    def __init__(self, number):
        self.id = number
        self.is_lost = False
        self.audience = 0
        self.network = f"10.0.0.{number}"


class Desk:
    """Hands requests to the request table as the server does, and keeps what came of them."""

    def __init__(self, folder, **config):
        # What operators change in files, tests change by request.
        config.setdefault("config_white_list", "enableAllTopicList;enableTopicList")
        self.config = NameServerConfig(
            kv_config_path=str(folder / "kvConfig.json"), config_store_path=str(folder / "namesrv.properties"), **config
        )
        self.clock = FakeClock()
        self.state = RouteState(self.config)
        self.reported = []
        self.settings = DurableSettings(
            self.config, KvConfig(), self, self.state.configure, lambda topic: self.state.route_cache.drop((topic,))
        )
        self.outcomes = []
        self.route_counters = self.state.route_cache.counts
        runner = CooperativeRunner()
        self.requests = RequestTable(
            BrokerRequestHandler(self.state, self.settings, self.clock, runner, self.outcomes.append),
            RouteRequestHandler(self.state, self.settings, self.clock, runner),
            OperatorRequestHandler(self.state, self.settings, runner, self.outcomes.append),
        )

    async def request(self, code, fields=None, body=b"", *, version=513, connection=1):
        return await self.answer(RemotingCommand(code, version=version, ext_fields=fields, body=body), Peer(connection))

    async def answer(self, request, peer):
        answer = await self._answer(request, peer)
        if isinstance(answer, PreparedResponse):
            frame = answer.frame(b"%d" % request.opaque)
        else:
            assert encode(answer, SerializeType.ROCKETMQ)
            frame = encode(answer)
        (received,) = CommandReader().receive(frame)
        return received

    async def _answer(self, request, peer):
        try:
            answer = self.requests.dispatch(request, peer)
            return await answer if inspect.isawaitable(answer) else answer
        except RequestRefused as refusal:
            return request.refusal(refusal)
        except BodyError as error:
            return request.refusal(RequestRefused(str(error)))

    def kv_changed(self, *facts):
        self.reported.append(("kv_changed", *facts))

    def kv_not_stored(self, error):
        self.reported.append(("kv_not_stored", error))

    def config_changed(self, *facts):
        self.reported.append(("config_changed", *facts))

    def written_in_place(self, path):
        self.reported.append(("written_in_place", path))

    def config_not_stored(self, error):
        self.reported.append(("config_not_stored", error))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture
def make_desk(tmp_path):
    return lambda **config: Desk(tmp_path, **config)
