"""Role addresses of a whole NameServer over real connections: 127.0.0.1 and 127.0.0.2 stand for two networks."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from broker_messages import MASTER, SLAVE, registration_body
from fakes.leadership_listener import eventually
from fakes.lines import Lines

from namesrv.app.service import NameServer
from namesrv.http.endpoints import ENDPOINTS
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader
from serving.http.views import ViewRequest
from serving.logging.logs import Logs, json_line
from serving.process.background_tasks import logged_tasks
from serving.process.process import Runtime
from serving.process.signals import Signals

SOON_S = 30
HERE, THERE = "127.0.0.1", "127.0.0.2"
OWN, ROLE = "10.0.0.1:10911", "10.9.0.5:10911"
QUERY = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
RULE = f'[[roleAddress]]\nset = "broker-a"\nnetworks = ["{{}}/32"]\nmaster = "{ROLE}"\nslaves = "omit"\n'


class Site:
    """A NameServer with a master and a slave, whose file of role addresses a test writes."""

    def __init__(self, folder):
        self.file = folder / "role-addresses.toml"
        self.lines = Lines()
        self.member_port = free_port()
        self._folder = folder
        self._connections = []

    @asynccontextmanager
    async def running(self, **config):
        config = NameServerConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            http_port=0,
            kv_config_path=str(self._folder / "kv"),
            config_store_path=str(self._folder / "kept"),
            member_port=self.member_port,
            **config,
        )
        logs, signals = Logs(self.lines, json_line(), SystemClock(), {}), Signals()
        tasks = logged_tasks(logs)
        self.server = NameServer(config, KvConfig(), Runtime(SystemClock(), logs, tasks, signals))

        async def run():
            async with tasks:
                await self.server.run()

        running = asyncio.create_task(run())
        await eventually(lambda: self.events("server_ready"), seconds=SOON_S, what="it serves")
        try:
            await self._register()
            yield self
        finally:
            for connection in self._connections:
                await connection.close()
            signals.stop.set()
            await asyncio.wait_for(running, SOON_S)
            logs.close(1)

    async def _register(self):
        self.broker = await self.from_host(HERE)
        topics = registration_body("TopicTest", "broker-a", "rmq_sys_SYNC_BROKER_MEMBER_broker-a")
        for member in (MASTER, SLAVE):
            assert (await self.broker.request(RequestCode.REGISTER_BROKER, member, topics)).code == 0

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]

    async def from_host(self, host, port=None):
        line = await Line.to((HERE, port or self.server._server.address[1]), host)
        self._connections.append(line)
        return line

    async def rules_of(self, text):
        """Write the file, and wait until the server has decided on it."""
        before = len(self.events("role_addresses_loaded") + self.events("role_addresses_refused"))
        self.file.write_text(text)
        await eventually(
            lambda: len(self.events("role_addresses_loaded") + self.events("role_addresses_refused")) > before,
            seconds=SOON_S,
            what="the file is read",
        )

    def shown(self):
        """Return what `/v1/role-addresses` shows."""
        (view,) = [each.view for each in ENDPOINTS if each.path == "/v1/role-addresses"]
        _, views = self.server._site()
        return view(views, ViewRequest())


class Line:
    """A connection from one of the hosts."""

    @classmethod
    async def to(cls, address, host):
        line = cls()
        line._reader, line._writer = await asyncio.open_connection(*address, local_addr=(host, 0))
        return line

    async def request(self, code, fields=None, body=b""):
        self._writer.write(encode(RemotingCommand(code, version=513, ext_fields=fields, body=body)))
        commands, answers = CommandReader(), []
        while not answers:
            answers += commands.receive(await asyncio.wait_for(self._reader.read(65536), SOON_S))
        return answers[0]

    async def close(self):
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def addresses(self, topic="TopicTest"):
        """Return broker id -> address in the route of a topic, the same each of three times."""
        fields = {"topic": topic}
        bodies = {(await self.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)).body for _ in range(3)}
        (body,) = bodies
        (data,) = json.loads(body)["brokerDatas"]
        return data["brokerAddrs"]


REAL, GIVEN = {"0": OWN, "1": "10.0.0.2:10911"}, {"0": ROLE}


def free_port():
    with socket.create_server((HERE, 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


async def test_peers_of_two_networks_get_two_routes_and_rules_are_followed(site):
    site.file.write_text(RULE.format(THERE))
    async with site.running(role_address_file=str(site.file)):
        here, there = await site.from_host(HERE), await site.from_host(THERE)
        assert [await each.addresses() for each in (here, there, here)] == [REAL, GIVEN, REAL]
        await site.rules_of(RULE.format(HERE))
        # Over the same connections, and with responses that were cached before.
        assert [await each.addresses() for each in (here, there, here)] == [GIVEN, REAL, GIVEN]
        loaded = site.events("role_addresses_loaded")
        assert [each["rules"] for each in loaded] == [1, 1]
        assert loaded[0]["digest"] != loaded[1]["digest"]


async def test_only_route_queries_of_clients_get_role_addresses(site):
    site.file.write_text(RULE.format(THERE))
    async with site.running(role_address_file=str(site.file)):
        there = await site.from_host(THERE)
        assert await there.addresses() == GIVEN
        assert await there.addresses("rmq_sys_SYNC_BROKER_MEMBER_broker-a") == REAL
        everything = await there.request(RequestCode.GET_BROKER_CLUSTER_INFO)
        assert OWN.encode() in everything.body
        assert ROLE.encode() not in everything.body
        group = await there.request(RequestCode.GET_BROKER_MEMBER_GROUP, {"brokerName": "broker-a"})
        assert OWN.encode() in group.body
        slave = await there.request(RequestCode.REGISTER_BROKER, SLAVE, registration_body("TopicTest"))
        assert slave.ext_fields["masterAddr"] == OWN


async def test_member_port_always_has_real_addresses(site):
    site.file.write_text(RULE.format(THERE))
    async with site.running(role_address_file=str(site.file)):
        member = await site.from_host(THERE, site.member_port)
        assert await member.addresses() == REAL
        await site.rules_of(RULE.format(THERE) + "# The same.\n")
        assert await member.addresses() == REAL
        assert await (await site.from_host(THERE)).addresses() == GIVEN


async def test_zone_query_gets_role_addresses_too(site):
    site.file.write_text(RULE.format(THERE))
    async with site.running(role_address_file=str(site.file)):
        there = await site.from_host(THERE)
        zone = {"__ZONE_MODE": "true", "__ZONE_NAME": "z"}
        await site.broker.request(
            RequestCode.REGISTER_BROKER, MASTER | {"__ZONE_NAME": "z"}, registration_body("TopicTest")
        )
        answer = await there.request(QUERY[0], QUERY[1] | zone)
        assert f'"brokerAddrs":{{0:"{ROLE}"}}'.encode() in answer.body


async def test_mistakes_leave_the_rules_before_in_force_and_are_shown(site):
    site.file.write_text(RULE.format(THERE))
    async with site.running(role_address_file=str(site.file)):
        there = await site.from_host(THERE)
        digest = site.shown().digest
        await site.rules_of(RULE.format(THERE).replace(ROLE, "broker-a.example.org:10911"))
        (refused,) = site.events("role_addresses_refused")
        assert refused["problems"][0].startswith("line 4, roleAddress 1: master: 'broker-a.example.org:10911'")
        assert await there.addresses() == GIVEN
        shown = site.shown()
        assert (shown.digest, shown.source) == (digest, str(site.file))
        assert shown.problem.startswith("line 4")
        assert shown.rules[0].master == ROLE
        site.file.unlink()
        await eventually(lambda: len(site.events("role_addresses_refused")) > 1, seconds=SOON_S, what="it is gone")
        assert await there.addresses() == GIVEN
        await site.rules_of(RULE.format(THERE))
        assert (site.shown().problem, await there.addresses()) == (None, GIVEN)


async def test_server_starts_with_a_bad_file_and_serves_real_addresses(site):
    site.file.write_text("[[roleAddress]]\n")
    async with site.running(role_address_file=str(site.file)):
        assert await (await site.from_host(THERE)).addresses() == REAL
        assert site.shown().problem.startswith("line 1, roleAddress 1: set: is missing")


async def test_rule_with_the_address_of_a_broker_is_not_applied_and_logged_once(site):
    site.file.write_text(RULE.format(THERE).replace(ROLE, OWN))
    async with site.running(role_address_file=str(site.file)):
        await eventually(lambda: site.events("role_address_ignored"), seconds=SOON_S, what="the loop is found")
        assert await (await site.from_host(THERE)).addresses() == REAL
        (loop,) = site.events("role_address_ignored")
        assert (loop["broker"], loop["addr"], loop["owner"], loop["line"]) == ("broker-a", OWN, "broker-a", 1)
        assert OWN in site.shown().rules[0].problem


async def test_without_a_file_nobody_is_classified(site):
    async with site.running():
        assert await (await site.from_host(THERE)).addresses() == REAL
        assert site.server._server.audience_of is None
        shown = site.shown()
        assert (shown.digest, shown.source, shown.rules) == (None, None, [])
