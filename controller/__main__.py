"""Starts a controller. Answers to `ControllerStartup`."""

import socket
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from controller.config import CONTROLLER, ControllerConfig
from serving.process.start import Start, exiting_if_start_fails, requested_start, run

#: Instead of serving, writes the configuration of a proxy.
_HAPROXY_CONFIG: Final = "haproxy-config"


def main() -> None:
    """Run `rmq-controller` until it is stopped, or its command `haproxy-config`; leaves the process."""
    if sys.argv[1:2] == [_HAPROXY_CONFIG]:
        from haproxy_config.command import main as write_config  # noqa: PLC0415  # a server needs nothing of it

        sys.exit(write_config(sys.argv[2:]))
    with exiting_if_start_fails(CONTROLLER):
        start = requested_start(CONTROLLER)
        run(start.config_file, lambda: _serve(start))


def _serve(start: Start[ControllerConfig]) -> Coroutine[Any, Any, None]:
    """Load the rest and serve; what is not needed for `-h` and `-p` is imported here, so that they answer at once."""
    from controller.app.identity import logged_id  # noqa: PLC0415
    from controller.app.service import Controller  # noqa: PLC0415
    from serving.process.process import serve, serve_together  # noqa: PLC0415

    config, ignored = start.config, start.ignored
    own_id = logged_id(config, socket.gethostname())
    return serve_together(partial(serve, CONTROLLER, config, ignored, partial(Controller, config), own_id=own_id))


if __name__ == "__main__":
    main()
