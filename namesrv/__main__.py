"""Starts a NameServer, and a controller beside it if configured. Answers to `NamesrvStartup`."""

from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.durable_settings import load_kv_config
from namesrv.settings.kv_config import KvConfig
from serving.config.sources import WhyIgnored
from serving.process.start import Start, exiting_if_start_fails, requested_start, run

if TYPE_CHECKING:
    from controller.app.embedded import EmbeddedController


def main() -> None:
    """Run `rmq-namesrv` until the stop signal; leaves the process."""
    with exiting_if_start_fails(NAMESRV):
        start = requested_start(NAMESRV)
        kv = load_kv_config(Path(start.config.kv_config_path))
        controller = _embedded_controller(start)
        run(start.config_file, lambda: _serve(start, kv, controller))


def _embedded_controller(start: "Start[NameServerConfig]") -> "EmbeddedController | None":
    config = start.config
    if not config.enable_controller_in_namesrv:
        return None
    # The only place where one server knows of the other: to start it.
    from controller.app.embedded import embedded_controller  # noqa: PLC0415

    ports = config.controller_listen_port, config.controller_http_port
    return embedded_controller(start.config_file, config, *ports, NAMESRV.field_of_key)


def _serve(
    start: Start[NameServerConfig], kv: KvConfig, controller: "EmbeddedController | None"
) -> Coroutine[Any, Any, None]:
    """Load the rest and serve; what is not needed for `-h` and `-p` is imported here, so that they answer at once."""
    from namesrv.app.service import NameServer  # noqa: PLC0415
    from serving.process.process import serve, serve_together  # noqa: PLC0415

    ignored = start.ignored
    if controller is not None:
        ignored = tuple(
            each for each in ignored if each.why is not WhyIgnored.UNKNOWN or not controller.knows(each.key)
        )
    config = start.config
    own = partial(serve, NAMESRV, config, ignored, partial(NameServer, config, kv))
    return serve_together(own) if controller is None else serve_together(own, controller.serve)


if __name__ == "__main__":
    main()
