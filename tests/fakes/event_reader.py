"""Reads server-sent events as a program does."""

import asyncio
import contextlib
import json
from typing import NamedTuple

import aiohttp

SOON_S = 20


class ReadEvent(NamedTuple):
    name: str
    data: dict
    id: str | None
    retry_ms: int | None


class EventReader:
    """One stream of events; `await` it to open it."""

    def __init__(self, response):
        self._response = response
        self._lines = []
        self.last_id = None
        self.comments = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, url, query, last_id=None):
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url + query, headers=headers) as got:
            assert got.status == 200, await got.text()
            yield cls(got)

    async def next(self):
        """Return the next event; None at the end of the stream."""
        async with asyncio.timeout(SOON_S):
            while True:
                fields = await self._fields()
                if fields is None:
                    return None
                if "event" in fields:
                    break
        event_id = fields.get("id")
        self.last_id = event_id or self.last_id
        retry = fields.get("retry")
        return ReadEvent(fields["event"], json.loads(fields["data"]), event_id, int(retry) if retry else None)

    async def some(self, count):
        return [await self.next() for _ in range(count)]

    async def nothing_comes(self, seconds=0.2):
        """Return whether nothing comes for a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._fields()
                return False
        return True

    async def _fields(self):
        fields = {}
        while line := await self._response.content.readline():
            text = line.decode().rstrip("\n")
            if not text and fields:
                return fields
            name, _, value = text.partition(":")
            if name:
                fields[name] = value.strip()
            elif text:
                self.comments += 1
        return None
