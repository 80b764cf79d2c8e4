"""Starts a controller. Answers to `ControllerStartup`."""

import socket
from collections.abc import Coroutine
from functools import partial
from typing import Any

from controller.config import CONTROLLER, ControllerConfig
from serving.process.start import Start, exiting_if_start_fails, requested_start, run


def main() -> None:
    """Run `rmq-controller` until it is stopped; leaves the process."""
    with exiting_if_start_fails(CONTROLLER):
        start = requested_start(CONTROLLER)
        run(start.config_file, lambda: _serve(start))


def _serve(start: Start[ControllerConfig]) -> Coroutine[Any, Any, None]:
    """Load the rest and serve; what is not needed for `-h` and `-p` is imported here, so that they answer at once."""
    from controller.app.service import Controller, logged_id  # noqa: PLC0415
    from serving.process.process import serve, serve_together  # noqa: PLC0415

    config, ignored = start.config, start.ignored
    own_id = logged_id(config, socket.gethostname())
    return serve_together(partial(serve, CONTROLLER, config, ignored, partial(Controller, config), own_id=own_id))


if __name__ == "__main__":
    main()
