import pytest
from fakes.in_process_controller import InProcessController


@pytest.fixture
async def controller(tmp_path):
    async with InProcessController(tmp_path) as controller:
        yield controller
