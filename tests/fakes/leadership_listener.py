"""A leadership listener that records its calls."""

import asyncio
import time


class RecordingListener:
    """Its calls, in order; `time.perf_counter()` at the beginning of each lead and at its end."""

    def __init__(self):
        self.calls = []
        self.until_ms = 0
        self.leader = None
        self.is_leading = False
        self.members = ()
        self.entries = []
        self.led_at = []
        self.deposed_at = []

    def leads(self, until_ms):
        self.calls.append(("leads", until_ms))
        self.until_ms = until_ms
        if not self.is_leading:
            self.is_leading = True
            self.led_at.append(time.perf_counter())

    def follows(self, leader):
        self.calls.append(("follows", leader))
        self.leader = leader
        if self.is_leading:
            self.is_leading = False
            self.deposed_at.append(time.perf_counter())

    def members_changed(self, members):
        self.members = members

    def put_back(self):
        self.calls.append(("put back",))

    def entry_changed(self, broker_name, kept):
        self.entries.append((broker_name, kept))


async def eventually(condition, *, seconds, what):
    """Let the event loop run until `condition` returns something true, and return that."""
    deadline = time.perf_counter() + seconds
    while not (answer := condition()):
        assert time.perf_counter() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(0.01)
    return answer
