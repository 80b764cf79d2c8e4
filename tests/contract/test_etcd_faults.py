"""The etcd store when etcd fails: members die or hang, all are gone, it is compacted, filled, restored, locked."""

import asyncio
import subprocess
import sys
import textwrap

import pytest
from contract.etcd_group import SOON_S, Controller, an_entry, group, leader_of
from controller_builders import SET
from fakes.leadership_listener import eventually
from peers.etcd import Way, certificate, running_etcd

from controller.sets.stored_set import StoredSet
from remoting.clock import SystemClock
from store.etcd.etcd_store import EtcdOptions, EtcdStore
from store.store import Deposed, EntryMoved, OutcomeUnknown, StoreError, VersionedEntry

pytestmark = pytest.mark.etcd


@pytest.fixture
def etcd(tmp_path):
    with running_etcd(tmp_path) as etcd:
        yield etcd


@pytest.fixture
def three(tmp_path):
    with running_etcd(tmp_path, members=3) as etcd:
        yield etcd


class Writer:
    """Commits to one entry as a set store does: after an unknown outcome it reads."""

    def __init__(self, store):
        self.store = store
        self.kept = VersionedEntry()
        self.done = 0
        self.unknown = 0

    async def commit_once(self):
        wanted = an_entry(self.kept.entry.broker_set.master_epoch + 1 if self.kept.revision else 1)
        try:
            self.kept = VersionedEntry(wanted, await self.store.commit(SET, wanted, self.kept.revision))
        except OutcomeUnknown:
            self.unknown += 1
            await self._read_again(wanted)
        except (EntryMoved, StoreError):
            await self._read_again(wanted)
        else:
            self.done += 1

    async def _read_again(self, wanted):
        """It is as it was, or as it was wanted; nothing that was acknowledged is gone."""
        for _ in range(200):
            try:
                kept = await self.store.read(SET)
            except StoreError:
                await asyncio.sleep(0.1)
                continue
            assert kept == self.kept or kept.entry == wanted
            self.kept = kept
            return
        raise AssertionError("etcd did not come back")

    async def commits(self, number):
        wanted = self.done + number
        async with asyncio.timeout(4 * SOON_S):
            while self.done < wanted:
                await self.commit_once()
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("how", ["kill", "pause"])
@pytest.mark.parametrize("which", ["first", "leading"])
async def test_commits_continue_while_one_of_three_etcd_members_is_killed_or_paused(three, how, which):
    async with group(three.endpoints) as (leader,):
        writer = Writer(leader.store)
        await writer.commits(20)
        lost = three.members[0] if which == "first" else three.leader()
        getattr(lost.process, how)()
        await writer.commits(20)
        if how == "kill":
            three.begin(lost)
        else:
            lost.process.resume()
        await writer.commits(20)
        assert (await leader.store.read(SET)) == writer.kept


async def test_commits_survive_repeated_kills_of_the_etcd_leader(three):
    async with group(three.endpoints) as (leader,):
        writer = Writer(leader.store)
        for _ in range(3):
            await writer.commits(20)
            lost = await eventually(three.leader, seconds=SOON_S, what="etcd has a leader")
            lost.process.kill()
            await writer.commits(10)
            await asyncio.to_thread(three.restart, lost)
        assert (await leader.store.read(SET)) == writer.kept


async def test_commits_survive_a_kill_of_all_etcd_members(three):
    async with group(three.endpoints, number=2) as controllers:
        leader, other = controllers
        revision = await leader.commit()
        three.kill()
        await eventually(lambda: leader.listener.deposed_at, seconds=SOON_S, what="nobody leads")
        await eventually(lambda: other.listener.leader is None, seconds=SOON_S, what="nobody is said to lead")
        with pytest.raises(Deposed):
            await leader.commit(6, revision)
        with pytest.raises(OutcomeUnknown, match=r"etcd at 127\.0\.0\.1"):
            await leader.store.read(SET)
        await asyncio.to_thread(three.restart)
        await eventually(
            lambda: any(each.listener.is_leading for each in controllers), seconds=SOON_S, what="one leads"
        )
        now = leader if leader.listener.is_leading else other
        assert dict(await now.store.load()) == {SET: VersionedEntry(an_entry(), revision)}
        await now.commit(6, revision)


async def test_changes_missed_through_a_compaction_are_reported_afterwards(etcd):
    async with group(etcd.endpoints, number=2) as (leader, other):
        kept = await leader.commit(1, name="stays")
        gone = await leader.commit(1, name="goes")
        await eventually(lambda: len(other.listener.entries) == 2, seconds=SOON_S, what="it knows both")
        # The watch cannot go on while its endpoint refuses connections; what happens meanwhile is compacted away.
        other.store._client._options = EtcdOptions(endpoints=("127.0.0.1:1",))
        other.store._client._connections.popitem()[1].close()
        for epoch in range(2, 6):
            kept = await leader.commit(epoch, kept, name="stays")
        etcd.ctl("del", leader.store._keys.broker_set("goes").decode())
        etcd.ctl("compact", etcd.revision())
        other.store._client._options = EtcdOptions(endpoints=etcd.endpoints)
        other.store._client._connections.clear()
        await eventually(lambda: len(other.listener.entries) == 4, seconds=SOON_S, what="it knows both changes")
        reported = dict(other.listener.entries[2:])
        assert reported["stays"] == VersionedEntry(an_entry(5), kept)
        assert reported["goes"].entry == StoredSet()
        assert reported["goes"].revision > gone
        await leader.commit(6, kept, name="stays")
        await eventually(lambda: len(other.listener.entries) == 5, seconds=SOON_S, what="it goes on")


async def test_watch_survives_a_restart_of_etcd(etcd):
    async with group(etcd.endpoints, number=2) as controllers:
        revision = await controllers[0].commit(1)
        etcd.kill()
        await asyncio.to_thread(etcd.restart)
        leader = await eventually(
            lambda: next((each for each in controllers if each.listener.is_leading), None),
            seconds=SOON_S,
            what="a leader",
        )
        other = next(each for each in controllers if each is not leader)
        revision = await leader.commit(2, revision)
        await eventually(
            lambda: (SET, VersionedEntry(an_entry(2), revision)) in other.listener.entries,
            seconds=SOON_S,
            what="it is told",
        )


async def test_restored_backup_is_noticed_by_all_controllers(etcd, tmp_path):
    async with group(etcd.endpoints, number=2) as controllers:
        old = await controllers[0].commit(1)
        etcd.ctl("snapshot", "save", tmp_path / "backup")
        revision = old
        for epoch in range(2, 8):
            revision = await controllers[0].commit(epoch, revision)
        reported = (SET, VersionedEntry(an_entry(7), revision))
        await eventually(
            lambda: controllers[1].listener.entries[-1:] == [reported], seconds=SOON_S, what="both know it"
        )
        leads = sum(len(each.listener.led_at) for each in controllers)
        etcd.kill()
        etcd.restore(tmp_path / "backup")
        await asyncio.to_thread(etcd.restart)
        await eventually(
            lambda: sum(len(each.listener.led_at) for each in controllers) > leads,
            seconds=SOON_S,
            what="one leads anew",
        )
        leader = await leader_of(controllers)
        other = next(each for each in controllers if each is not leader)
        reported = (SET, VersionedEntry(an_entry(1), old))
        await eventually(lambda: other.listener.entries[-1:] == [reported], seconds=SOON_S, what="the other is told")
        assert dict(await leader.store.load()) == {SET: VersionedEntry(an_entry(1), old)}
        await leader.commit(9, old)


def fill(etcd):
    while etcd.ctl("put", "filler", "x" * 100_000, check=False).returncode == 0:
        pass


async def test_full_etcd_refuses_commits_with_the_commands_that_repair_it(tmp_path):
    with running_etcd(tmp_path, options=("--quota-backend-bytes", 4 << 20)) as etcd:
        async with group(etcd.endpoints) as (leader,):
            revision = await leader.commit()
            await asyncio.to_thread(fill, etcd)
            with pytest.raises(StoreError, match=r"etcdctl compact.*etcdctl defrag.*etcdctl alarm disarm") as refused:
                await leader.commit(6, revision)
            assert not isinstance(refused.value, OutcomeUnknown)
            assert leader.listener.is_leading
            for words in (("del", "filler"), ("compact", etcd.revision()), ("defrag",), ("alarm", "disarm")):
                await asyncio.to_thread(etcd.ctl, *words)
            await leader.leads()
            await leader.commit(7, (await leader.store.read(SET)).revision)


# Users and certificates


@pytest.fixture
def guarded(tmp_path):
    """An etcd with users, whose tokens end when it restarts."""
    with running_etcd(tmp_path) as etcd:
        etcd.ctl("user", "add", "root:secret")
        etcd.ctl("user", "grant-role", "root", "root")
        etcd.ctl("user", "add", "stranger:secret")
        etcd.ctl("auth", "enable")
        etcd.login = ("--user", "root:secret")
        yield etcd


async def test_etcd_user_logs_in_again_when_the_token_has_expired(guarded):
    async with group(guarded.endpoints, user="root", password="secret") as (leader,):
        revision = await leader.commit()
        guarded.kill()
        await asyncio.to_thread(guarded.restart)
        await leader.leads()
        revision = (await leader.store.read(SET)).revision
        await eventually(lambda: leader.listener.is_leading, seconds=SOON_S, what="it leads again")
        leader.store._client._token = "ended"
        revision = await leader.commit(6, revision)
        assert await leader.store.read(SET) == VersionedEntry(an_entry(6), revision)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"user": "root", "password": "wrong"}, "user or the password is wrong"),
        ({"user": "stranger", "password": "secret"}, "needs a role that may read and write"),
        ({}, "requires a user and a password"),
    ],
)
async def test_refused_etcd_login_names_the_reason(guarded, options, reason):
    controller = Controller(1, guarded.endpoints, **options)
    with pytest.raises(StoreError, match=f"etcd at {guarded.endpoints[0]}: .*{reason}"):
        await controller.join()
    await controller.close()


async def test_unanswered_size_query_does_not_disturb_other_requests(etcd):
    way = Way(etcd.endpoints[0])
    try:
        async with group((way.endpoint,)) as (leader,):
            connection = leader.store._client._connections[0]
            way.hold()
            with pytest.raises(StoreError, match="etcd at"):
                await leader.store.size_bytes()
            way.let_go()
            assert await leader.store.size_bytes() > 0
            await leader.commit()
            assert leader.store._client._connections[0] is connection
    finally:
        way.close()


async def test_password_for_an_etcd_without_users_is_accepted(etcd):
    async with group(etcd.endpoints, user="root", password="secret") as (leader,):
        await leader.commit()


@pytest.fixture
def sealed(tmp_path):
    """An etcd that speaks TLS, and only with those who show a certificate it knows."""
    with running_etcd(tmp_path, tls=certificate(tmp_path, "etcd")) as etcd:
        yield etcd


async def test_store_with_a_certificate_connects(sealed):
    ca, cert, key = sealed.tls
    async with group(sealed.endpoints, ca_file=ca, cert_file=cert, key_file=key) as (leader,):
        await leader.commit()


async def test_untrusted_and_missing_certificates_are_named(sealed, tmp_path):
    ca, cert, key = sealed.tls
    other_client, *_ = certificate(tmp_path, "stranger")
    for options in ({"ca_file": other_client, "cert_file": cert, "key_file": key}, {"ca_file": ca}, {}):
        controller = Controller(1, sealed.endpoints, **options)
        with pytest.raises(StoreError, match=f"etcd at {sealed.endpoints[0]}: .*(TLS|certificate)"):
            await controller.join()
        await controller.close()


async def test_endpoints_may_be_names_and_urls_and_the_first_may_be_unreachable(etcd):
    port = etcd.members[0].client_port
    async with group(("http://127.0.0.1:1", f"http://localhost:{port}/")) as (leader,):
        await leader.commit()


def test_invalid_etcd_options_are_refused_at_once(tmp_path):
    with pytest.raises(StoreError, match="no endpoint"):
        EtcdStore(EtcdOptions(endpoints=()), SystemClock())
    missing = tmp_path / "ca.pem"
    with pytest.raises(StoreError, match=f"{missing} cannot be read"):
        EtcdStore(EtcdOptions(endpoints=("a:1",), ca_file=str(missing)), SystemClock())


async def test_join_without_a_listening_endpoint_is_refused_and_can_be_repeated(tmp_path):
    controller = Controller(1, ["127.0.0.1:1", "127.0.0.1:2"])
    for _ in range(2):
        with pytest.raises(StoreError, match=r"etcd at 127\.0\.0\.1:[12]: .*failed to connect"):
            await controller.join()
    await controller.close()


# The process


ENDS_WITHOUT_CLOSING = """
import asyncio, subprocess, sys
from store.store import ControllerMember
from controller.sets.stored_set import StoredSet
from store.etcd.etcd_store import EtcdOptions, EtcdStore
from fakes.leadership_listener import RecordingListener, eventually
from remoting.clock import SystemClock

async def main():
    store, witness = EtcdStore(EtcdOptions(endpoints=(sys.argv[1],)), SystemClock()), RecordingListener()
    await store.join(ControllerMember(id="n", address="h:1"), witness)
    await eventually(lambda: witness.is_leading, seconds=30, what="it leads")
    await store.commit("a", StoredSet(), 0)
    subprocess.run(["true"], check=True)
    if sys.argv[2] == "close":
        await store.resign()
        await store.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["close", "leave"])
def test_process_ends_without_output_with_an_open_or_closed_store(etcd, end):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ENDS_WITHOUT_CLOSING), etcd.endpoints[0], end],
        env={"PYTHONPATH": ".:tests", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_embedded_store_never_loads_grpc():
    program = "import sys, store.embedded, store.etcd.lease_state_machine; print({'grpc', 'etcd3'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
