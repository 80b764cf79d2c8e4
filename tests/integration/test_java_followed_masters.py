"""A manager follows real brokers at a NameServer: their master, its end, and its next start by its own clock."""

import contextlib

import pytest
from peers.lab import Lab
from peers.offset_managers import OffsetManager
from peers.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SOON_S = 120


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def test_the_master_of_a_real_broker_set_is_found_lost_and_gained_with_another_start(lab):
    namesrv = lab.name_server()
    broker = lab.broker("broker-a", namesrv=[namesrv.address]).start().ready()
    manager = lab.kept(OffsetManager(lab.folder, namesrv_addr=namesrv.address)).start()

    def changes():
        return [line["kind"] for line in manager.events("master_changed")]

    wait_until(lambda: changes() == ["found"], seconds=SOON_S, what="the master is found")
    shown = manager.get("/v1/manager").body
    assert (shown["follows"], shown["mastersKnown"], shown["brokerSetsWithMaster"]) == ("name_servers", True, 1)
    broker.process.kill()
    wait_until(lambda: changes() == ["found", "lost"], seconds=SOON_S, what="its end is noticed")
    assert manager.get("/v1/manager").body["brokerSetsWithMaster"] == 0
    broker.start().ready()
    wait_until(lambda: changes() == ["found", "lost", "gained"], seconds=SOON_S, what="it is back")
    (found, _, gained) = manager.events("master_changed")
    assert (gained["old_addr"], gained["addr"]) == (found["addr"], broker.address)
