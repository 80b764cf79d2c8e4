"""A NameServer connects to role addresses, and gives clients those at which the right broker answers."""

import asyncio
import json
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from broker_messages import MASTER, SLAVE
from fakes.answering_peer import NOTHING, AnsweringPeer, peers, refusal, success
from fakes.clock import FakeClock
from fakes.leadership_listener import eventually
from fakes.role_address_site import CHECKED_RULE, OWN, ROLE, SOON_S, THERE, Site

from namesrv.app.role_addresses import AT_ONCE, QUICK_TIMEOUT_MS, TIMEOUT_MS
from remoting.protocol.codes import RequestCode
from remoting.transport.tls import TlsContexts, TlsSettings

REAL = {"0": OWN, "1": "10.0.0.2:10911"}
RULE = CHECKED_RULE.format(THERE)
#: For many checks, each of which ends after 3 s, on a machine that others use as well.
VERY_LONG_S = 120


class Proxy:
    """Stands for a proxy: answers as the broker that is set, or as the given response."""

    def __init__(self):
        self.options = {"brokerName": "broker-a", "brokerId": "0", "brokerIP1": "10.0.0.1", "listenPort": "10911"}
        self.response = None
        self.requests = []

    def answer(self, code, fields):
        self.requests.append((code, fields))
        return self.response or success("".join(f"{key}={value}\n" for key, value in self.options.items()).encode())


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def proxy():
    return Proxy()


@asynccontextmanager
async def checked(site, proxy):
    """Yield the listening proxy; the file has a rule with its address."""
    async with peers(proxy.answer) as (peer,):
        site.file.write_text(RULE.replace(ROLE, peer.address))
        yield peer


async def event(site, name, number=1, *, seconds=SOON_S):
    """Wait until an event was logged so often, and return the last of them."""
    return await eventually(
        lambda: (site.events(name)[number - 1 :] or [None])[0], seconds=seconds, what=f"{name} for the {number}. time"
    )


async def addresses(site):
    return await (await site.from_host(THERE)).addresses()


async def test_address_at_which_the_master_answers_is_given_and_remembered(site, proxy, tmp_path):
    async with checked(site, proxy) as peer, site.running(role_address_file=str(site.file)):
        logged = await event(site, "role_address_applied")
        assert (logged["broker"], logged["broker_id"], logged["addr"]) == ("broker-a", 0, peer.address)
        assert await addresses(site) == {"0": peer.address}
        (shown,) = site.shown().rules[0].checks
        assert (shown.state, shown.address, shown.problem) == ("in_force", peer.address, None)
        assert site.shown().rules[0].problem is None
        assert proxy.requests == [(RequestCode.GET_BROKER_CONFIG, {})]
        stored = tmp_path / "kv.roleAddresses"
        await eventually(stored.exists, seconds=SOON_S, what="it is stored")
    assert json.loads(stored.read_text()) == {"given": [{"set": "broker-a", "brokerId": 0, "address": peer.address}]}


async def test_address_at_which_another_broker_answers_is_not_given_until_the_master_does(site, proxy):
    proxy.options |= {"brokerId": "1", "listenPort": "10999"}
    async with checked(site, proxy) as peer, site.running(role_address_file=str(site.file)):
        logged = await event(site, "role_address_not_applied")
        assert (logged["broker"], logged["addr"]) == ("broker-a", peer.address)
        assert logged["error"].startswith("broker id 1 of broker-a, which registers with 10.0.0.1:10999 answered there")
        assert await addresses(site) == REAL
        assert peer.address in site.shown().rules[0].problem
        proxy.options |= {"brokerId": "0", "listenPort": "10911"}
        await event(site, "role_address_applied")
        assert await addresses(site) == {"0": peer.address}


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (NOTHING, "no answer within 3000 ms"),
        (refusal(16, "no permission"), "code 16: no permission"),
        (success(b"a" * 300_000), "what answered is no broker: its answer has 300000 bytes"),
        (success(b"\xff\xfe"), "broker id None of None, which registers with None answered there"),
        (success(b"brokerName=broker-a\nbrokerId=x\nbrokerIP1=10.0.0.1\n"), "broker id None of broker-a"),
    ],
)
async def test_address_without_a_usable_answer_is_not_given(site, proxy, response, reason):
    proxy.response = response
    async with checked(site, proxy), site.running(role_address_file=str(site.file)):
        assert (await event(site, "role_address_not_applied"))["error"].startswith(reason)
        assert await addresses(site) == REAL


async def test_address_at_which_nobody_listens_is_not_given_and_one_of_no_registered_set_is_not_connected_to(
    site, proxy
):
    async with peers(proxy.answer) as (peer,):
        await peer.close()
        rules = RULE.replace(ROLE, peer.address) + RULE.replace("broker-a", "broker-z")
        site.file.write_text(rules)
        async with site.running(role_address_file=str(site.file)):
            assert "connection refused" in (await event(site, "role_address_not_applied"))["error"]
            assert [rule.checks[0].state for rule in site.shown().rules] == ["refused", "waiting"]
            assert "as soon as a master of broker-z is registered" in site.shown().rules[1].problem
            await peer.open()
            await event(site, "role_address_applied")


async def test_address_that_does_not_answer_while_it_moves_is_given_up_after_a_second(site, proxy):
    loop = asyncio.get_running_loop()
    request_s = []

    def answer(code, fields):
        request_s.append(loop.time())
        return proxy.answer(code, fields)

    async with peers(answer) as (peer,):
        site.file.write_text(RULE.replace(ROLE, peer.address))
        async with site.running(role_address_file=str(site.file)):
            await event(site, "role_address_applied")
            proxy.response = NOTHING
            request_s.clear()
            await site.register(MASTER | {"brokerAddr": "10.0.0.9:10911"})
            await eventually(lambda: len(request_s) >= 3, seconds=SOON_S, what="three checks")
    assert all(QUICK_TIMEOUT_MS <= (later - sooner) * 1000 < TIMEOUT_MS for sooner, later in pairwise(request_s))


async def test_restart_while_a_set_fails_over_gives_the_same_address_without_a_check(site, proxy, tmp_path):
    async with checked(site, proxy) as peer:
        async with site.running(role_address_file=str(site.file)):
            await eventually((tmp_path / "kv.roleAddresses").exists, seconds=SOON_S, what="the address is stored")
        # The address leads nowhere: the master has just failed.
        await peer.close()
        async with site.running(role_address_file=str(site.file)):
            assert await addresses(site) == {"0": peer.address}
            assert site.shown().rules[0].checks[0].state == "in_force"
        await peer.open()


async def test_restart_with_a_file_that_is_refused_forgets_no_address(site, proxy, tmp_path):
    stored = tmp_path / "kv.roleAddresses"
    async with checked(site, proxy) as peer:
        async with site.running(role_address_file=str(site.file)):
            await eventually(stored.exists, seconds=SOON_S, what="the address is stored")
        site.file.write_text("[[roleAddress]]\n")
        async with site.running(role_address_file=str(site.file)):
            assert await addresses(site) == REAL
            await peer.close()
            await site.rules_of(RULE.replace(ROLE, peer.address))
            assert await addresses(site) == {"0": peer.address}
        await peer.open()


async def test_damaged_store_is_logged_and_every_address_checked_again(site, proxy, tmp_path):
    (tmp_path / "kv.roleAddresses").write_text('{"given":[{"set":1}]}')
    async with checked(site, proxy) as peer, site.running(role_address_file=str(site.file)):
        assert (
            "kv.roleAddresses holds no checked role addresses"
            in (await event(site, "role_address_store_failed"))["error"]
        )
        await event(site, "role_address_applied")
        assert await addresses(site) == {"0": peer.address}


async def test_store_that_cannot_be_written_is_logged_and_addresses_are_given_all_the_same(site, proxy, tmp_path):
    (tmp_path / "kv.roleAddresses").mkdir()
    async with checked(site, proxy) as peer, site.running(role_address_file=str(site.file)):
        await event(site, "role_address_applied")
        # It was not readable at the start, and is not writable now.
        await event(site, "role_address_store_failed", 2)
        assert await addresses(site) == {"0": peer.address}


async def test_two_hundred_addresses_that_do_not_answer_hold_up_no_route_query(site, proxy):
    proxy.response = NOTHING
    async with peers(*[proxy.answer] * 200) as listening:
        rules = [
            f'[[roleAddress]]\nset = "broker-{number}"\nmaster = "{peer.address}"\n'
            for number, peer in enumerate(listening)
            if not any(abs(peer.port - other.port) == 2 for other in listening[:number])
        ]
        site.file.write_text("".join(rules))
        async with site.running(role_address_file=str(site.file)):
            members = [
                member
                | {"brokerName": f"broker-{number}", "brokerAddr": member["brokerAddr"].replace("10911", str(port))}
                for number, port in enumerate(range(20_000, 20_200))
                for member in (MASTER, SLAVE)
            ]
            await site.register(*members)
            there = await site.from_host(THERE)
            for _ in range(200):
                assert (await there.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"})).code == 0
            # More than are under way at a time.
            await event(site, "role_address_not_applied", AT_ONCE + 1, seconds=VERY_LONG_S)


@pytest.mark.parametrize(("named", "is_signed"), [("127.0.0.1", True), ("10.0.0.0/8", False)])
async def test_check_is_signed_where_the_address_is_named_as_that_of_a_broker_with_acl(site, proxy, named, is_signed):
    keys = {"broker_access_key": "user", "broker_secret_key": "hidden-word", "broker_access_addresses": named}
    async with checked(site, proxy), site.running(role_address_file=str(site.file), **keys):
        await event(site, "role_address_applied")
        (_, fields) = proxy.requests[0]
        assert fields.keys() == ({"AccessKey", "Signature"} if is_signed else set())
        assert "hidden-word" not in str(site.lines.decoded())


async def test_check_uses_tls_where_requests_to_brokers_do(site, proxy):
    async with tls_peer(proxy) as peer:
        site.file.write_text(RULE.replace(ROLE, peer.address))
        async with site.running(role_address_file=str(site.file), tls_enable=True):
            await event(site, "role_address_applied")
    async with checked(site, proxy), site.running(role_address_file=str(site.file), tls_enable=True):
        # It speaks no TLS, and another address was stored.
        await event(site, "role_address_not_applied")


@asynccontextmanager
async def tls_peer(proxy):
    """Yield a listening proxy that speaks TLS with a certificate of its own."""
    contexts = TlsContexts(TlsSettings(), FakeClock(unix_ms=1_800_000_000_000))
    peer = await AnsweringPeer(proxy.answer, contexts.server_context()).open()
    yield peer
    await peer.close()
