"""Role addresses of a whole NameServer over real connections: 127.0.0.1 and 127.0.0.2 stand for two networks."""

import pytest
from broker_messages import MASTER, SLAVE, registration_body
from fakes.leadership_listener import eventually
from fakes.role_address_site import HERE, OWN, ROLE, RULE, SOON_S, THERE, Site

from namesrv.app.role_addresses import event_of
from namesrv.core.role_addresses.checks import AddressCheck, CheckChange, CheckState, RoleAddressUse
from remoting.protocol.codes import RequestCode

QUERY = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TopicTest"}
REAL, GIVEN = {"0": OWN, "1": "10.0.0.2:10911"}, {"0": ROLE}


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


@pytest.mark.parametrize(
    ("before", "state", "event"),
    [
        (CheckState.WAITING, CheckState.REFUSED, "role_address_not_applied"),
        (CheckState.REFUSED, CheckState.IN_FORCE, "role_address_applied"),
        (CheckState.IN_FORCE, CheckState.FAILING, "role_address_failing"),
        (CheckState.FAILING, CheckState.IN_FORCE, "role_address_recovered"),
    ],
)
def test_what_becomes_of_a_role_address_is_an_event_of_its_own(before, state, event):
    check = AddressCheck(RoleAddressUse("broker-a", 0, "10.9.0.5:10911"), state, 0)
    assert event_of(CheckChange(check, before)).name == event
