"""structlog as it is where rich is not installed.

structlog imports rich wherever it finds it, for colours that nothing here uses; on a machine that has it for another
tool that is a quarter of the time that this server has for its start, and 5 MB. Everything of structlog is taken from
here, so that it is never imported before.
"""

import sys

_hidden = "rich" not in sys.modules
if _hidden:
    # None in the place of a module makes its import fail, which structlog takes for "not installed".
    sys.modules["rich"] = None  # type: ignore[assignment]

import structlog  # noqa: E402
from structlog.processors import ExceptionRenderer  # noqa: E402
from structlog.tracebacks import ExceptionDictTransformer  # noqa: E402
from structlog.typing import EventDict, Processor  # noqa: E402

if _hidden:
    del sys.modules["rich"]

__all__ = ["EventDict", "ExceptionDictTransformer", "ExceptionRenderer", "Processor", "structlog"]
