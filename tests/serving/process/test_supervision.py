import asyncio

from fakes.clock import FakeClock
from fakes.lines import Lines

from serving.logging.logs import Logs, json_line
from serving.process.supervision import logged_tasks


async def test_a_chore_that_failed_is_told_and_begun_again():
    lines = Lines()
    logs = Logs(lines, json_line(), FakeClock(), {})
    begun_again = asyncio.Event()
    faults = [OSError("disk gone")]

    async def look_around():
        if faults:
            raise faults.pop()
        begun_again.set()
        await asyncio.Event().wait()

    async with logged_tasks(logs) as tasks:
        running = tasks.keep_running(look_around, "look_around", pause_s=0)
        await asyncio.wait_for(begun_again.wait(), 5)
        running.cancel()
    (line,) = lines.decoded()
    assert (line["event"], line["chore"]) == ("chore_failed", "look_around")
    assert line["exception"][0]["exc_value"] == "disk gone"
    assert tasks.failures == {"look_around": 1}
    logs.close(1)
