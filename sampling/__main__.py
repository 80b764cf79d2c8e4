"""Starts a sampler: `rmq-sampler`, or `python -m sampling`."""

import asyncio
import socket
from collections.abc import Sequence

from sampling.options import parse_options


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample until a signal; invalid options end the process."""
    options = parse_options(arguments, socket.gethostname())
    # What is not needed for `-h` is loaded here, so that it answers at once.
    from sampling.service import serve  # noqa: PLC0415

    asyncio.run(serve(options))


if __name__ == "__main__":
    main()
