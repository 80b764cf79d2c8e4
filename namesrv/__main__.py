"""Starts a NameServer. Answers to `NamesrvStartup`."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from namesrv.config import NAMESRV, NameServerConfig
from namesrv.kv_config import KvConfig
from namesrv.state_files import load_kv_config
from serving.start import Start, asked_start, leaving_if_not_started, run


def main() -> None:
    """Run `rmq-namesrv` until it is told to stop; leaves the process."""
    with leaving_if_not_started(NAMESRV):
        start = asked_start(NAMESRV)
        kv = load_kv_config(Path(start.config.kv_config_path))
        run(start.config_file, lambda: _serve(start, kv))


def _serve(start: Start[NameServerConfig], kv: KvConfig) -> Coroutine[Any, Any, None]:
    """Load the rest and serve; what is not needed for `-h` and `-p` is imported here, so that they answer at once."""
    from namesrv.service import NameServer  # noqa: PLC0415
    from serving.process import serve  # noqa: PLC0415

    return serve(NAMESRV, start.config, start.ignored, lambda around: NameServer(start.config, kv, around))


if __name__ == "__main__":
    main()
