"""Starts an offset manager: `python -m offsets`."""

import socket
from collections.abc import Coroutine
from functools import partial
from typing import Any

from offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from serving.process.start import Start, exiting_if_start_fails, requested_start, run


def main() -> None:
    """Run `rmq-offset-manager` until it is stopped; leaves the process."""
    with exiting_if_start_fails(OFFSET_MANAGER):
        start = requested_start(OFFSET_MANAGER)
        run(start.config_file, lambda: _serve(start))


def _serve(start: Start[OffsetManagerConfig]) -> Coroutine[Any, Any, None]:
    """Load the rest and serve; what `-h` and `-p` do not need is imported here, so that they answer at once."""
    from offsets.manager import OffsetManager, logged_id  # noqa: PLC0415
    from serving.process.process import serve, serve_together  # noqa: PLC0415

    config, ignored = start.config, start.ignored
    own_id = logged_id(config, socket.gethostname())
    return serve_together(
        partial(serve, OFFSET_MANAGER, config, ignored, partial(OffsetManager, config), own_id=own_id)
    )


if __name__ == "__main__":
    main()
