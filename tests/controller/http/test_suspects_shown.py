"""A page of many sets looks once for who is suspect: there may be thousands of both."""

import pytest
from fakes.control_room import ControlRoom

from controller.failure_detection.detector import FailureDetector


class Counting(FailureDetector):
    """Counts how often all suspects were asked for."""

    asked = 0

    @property
    def suspects(self):
        self.asked += 1
        return super().suspects


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        for number in range(3):
            await room.a_set(1, 2, name=f"broker-{number}")
        room.control.monitor.connection_lost(2)
        yield await room.serve_http()


async def test_suspects_are_determined_once_for_a_page_of_sets(room):
    room.detector.__class__ = Counting
    _, body = await room.get("/v1/broker-sets")
    assert [each["suspect"] for one in body["brokerSets"] for each in one["replicas"]] == [False, True] * 3
    assert room.detector.asked == 1
