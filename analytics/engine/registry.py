"""The registry of analyses: id -> module, so that their names are known before Spark is loaded."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from analytics.shared.job import Job

#: Each module has a constant `JOB`.
MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "A1": "availability",
        "A2": "heartbeat_gaps",
        "A3": "flapping",
        "A4": "detection_delay",
        "A5": "timeout_recommendation",
        "A6": "divergence",
        "A7": "route_churn",
        "A8": "queue_balance",
        "A9": "queue_scaling",
        "A10": "failover_timeline",
        "A11": "restart_storms",
        "A12": "capacity",
        "A13": "anomalies",
        "A14": "correlated_failures",
        "A15": "resizes",
        "A16": "read_again",
    }
)


class UnknownJob(Exception):
    """There is no analysis of that name; the text names those there are."""

    def __init__(self, name: str) -> None:
        self.name = name
        known = ", ".join(f"{job_id} ({module})" for job_id, module in MODULES.items())
        super().__init__(f"unknown job {name}; known are {known}")


def job_id(name: str) -> str:
    """Return the id of an analysis that  named by its id or its module's name; raises UnknownJob."""
    for known, module in MODULES.items():
        if name.upper() == known or name.lower().replace("-", "_") == module:
            return known
    raise UnknownJob(name)


def load_jobs(ids: Iterable[str] = MODULES) -> "tuple[Job, ...]":
    """Return the analyses with these ids, in their order."""
    names = (f"a{int(job_id[1:]):02}_{MODULES[job_id]}" for job_id in ids)
    return tuple(import_module(f"analytics.jobs.{name}").JOB for name in names)
