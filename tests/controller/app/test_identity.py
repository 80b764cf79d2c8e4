"""What brokers, other controllers and readers of logs know a controller by."""

import socket

import pytest
from fakes.background import background_tasks
from fakes.lines import Lines

from controller.app.service import Controller, logged_id, member_of
from controller.config import ControllerConfig
from remoting.clock import SystemClock
from serving.logging.logs import Logs, json_line
from serving.process import own_address
from serving.process.process import Runtime
from serving.process.signals import Signals
from serving.process.start import StartFailed
from store.store import ControllerMember

ETCD = {"controller_store": "etcd", "etcd_endpoints": "127.0.0.1:1"}


@pytest.fixture
def _cut_off(monkeypatch):
    """A machine without routes, whose name stands for loopback as on many."""
    own_address._own_address.cache_clear()
    monkeypatch.setattr(own_address, "_FAR", {socket.AF_INET: "255.255.255.255", socket.AF_INET6: "ff00::"})
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    yield
    own_address._own_address.cache_clear()


def a_config(folder="/nowhere", **options):
    return ControllerConfig(controller_store_path=str(folder), http_port=0, **options)


async def made(config):
    """Return the lines of a controller that is made and not run."""
    lines = Lines()
    logs = Logs(lines, json_line(), SystemClock(), {})
    async with background_tasks() as tasks:
        controller = Controller(config, Runtime(SystemClock(), logs, tasks, Signals()))
        await controller._backend.close()
    return [line for line in lines.decoded() if line["event"] == "loopback_advertised"]


@pytest.mark.usefixtures("_cut_off")
async def test_single_controller_without_an_own_address_starts_and_warns(tmp_path):
    assert member_of(a_config(), 9878).address == "127.0.0.1:9878"
    (line,) = await made(a_config(tmp_path))
    assert line["addr"] == "127.0.0.1"


@pytest.mark.usefixtures("_cut_off")
async def test_controller_with_etcd_without_an_own_address_is_refused_with_the_option_to_set():
    config = a_config(controller_id="c0", **ETCD)
    with pytest.raises(StartFailed) as refused:
        await made(config)
    reason = refused.value
    assert "bindAddress is 0.0.0.0: set advertisedAddress to host:port" in str(reason)


@pytest.mark.usefixtures("_cut_off")
async def test_configured_address_starts_without_a_warning(tmp_path):
    given = {"advertised_address": "c0.example:9878"}
    assert member_of(a_config(**ETCD, **given), 9878) == ControllerMember(
        id="c0.example:9878", address="c0.example:9878"
    )
    assert await made(a_config(tmp_path, **given)) == []
    assert member_of(a_config(**ETCD, bind_address="10.1.2.3"), 9878).address == "10.1.2.3:9878"


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"bind_address": "10.1.2.3"}, "10.1.2.3:9878"),
        ({"bind_address": "fd00::1"}, "[fd00::1]:9878"),
        ({"bind_address": "10.1.2.3", "advertised_address": "c0:1"}, "c0:1"),
        ({"bind_address": "10.1.2.3", "advertised_address": "c0:1", "controller_id": "c0"}, "c0"),
    ],
)
def test_log_lines_have_the_controller_id_of_the_group(options, known):
    config = a_config(**options)
    assert logged_id(config, "host") == member_of(config, 9878).id == known


@pytest.mark.usefixtures("_cut_off")
def test_log_lines_without_an_address_have_the_host_name():
    assert logged_id(a_config(), "host-7") == "host-7:9878"
