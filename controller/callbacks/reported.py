"""Changes of masters that were reported and not compared with what was delivered yet: the latest of each set."""

import asyncio

from controller.roles.changes import RoleChange


class ReportedChanges:
    """Listens to changes for the callbacks, and waits for nothing."""

    def __init__(self) -> None:
        self._changes: dict[str, RoleChange] = {}
        #: Set while there is something to do.
        self.wake = asyncio.Event()

    def role_changed(self, change: RoleChange) -> None:
        """Keep the change of a set."""
        self._changes[change.broker_name] = change
        self.wake.set()

    def take(self) -> list[RoleChange]:
        """Return what was reported since the last call."""
        taken = list(self._changes.values())
        self._changes.clear()
        return taken
