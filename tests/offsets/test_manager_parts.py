"""How an offset manager is wired: what has to be there before what."""

from fakes.lines import Lines

from offsets.config import OffsetManagerConfig
from offsets.manager import OffsetManager
from offsets.readings.readings import Readings
from offsets.repair.service import Repairer
from offsets.sets.following import Following
from remoting.clock import SystemClock
from serving.logging.logs import Logs, json_line
from serving.process.background_tasks import logged_tasks
from serving.process.process import Runtime
from serving.process.signals import Signals


async def test_masters_are_followed_once_the_kept_runs_and_readings_are_loaded(tmp_path, monkeypatch):
    done = []
    for of, name in ((Repairer, "load"), (Readings, "load"), (Following, "run")):

        async def work(_, what=of):
            done.append(what)

        monkeypatch.setattr(of, name, work)
    logs = Logs(Lines(), json_line(), SystemClock(), {})
    async with logged_tasks(logs) as tasks:
        config = OffsetManagerConfig(http_port=0, store_path=str(tmp_path))
        manager = OffsetManager(config, Runtime(SystemClock(), logs, tasks, Signals()))
        await manager._work["follow_masters"]()
        await manager._commits.close()
    assert done == [Repairer, Readings, Following]
    logs.close(1)
