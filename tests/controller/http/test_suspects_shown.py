"""A page of many sets determines the suspects once: there may be thousands of both."""

import pytest

from controller.failure_detection.detector import FailureDetector


class Counting(FailureDetector):
    """Counts how often the suspects were determined."""

    reads = 0

    @property
    def suspects(self):
        self.reads += 1
        return super().suspects


@pytest.fixture
async def controller(controller):
    for number in range(3):
        await controller.a_set(1, 2, name=f"broker-{number}")
    controller.control.monitor.connection_lost(2)
    return await controller.serve_http()


async def test_suspects_are_determined_once_for_a_page_of_sets(controller):
    controller.detector.__class__ = Counting
    _, body = await controller.get("/v1/broker-sets")
    assert [each["suspect"] for one in body["brokerSets"] for each in one["replicas"]] == [False, True] * 3
    assert controller.detector.reads == 1
