"""All that hands over to the recorder of a controller, together."""

from typing import NamedTuple, Self

from controller.recording.role_recorder import RoleRecorder
from controller.recording.set_recorder import SetRecorder
from serving.process.recording import Recording


class ControllerRecorders(NamedTuple):
    """One for each subject; all None where nothing is recorded."""

    sets: SetRecorder | None = None
    roles: RoleRecorder | None = None

    @classmethod
    def of(cls, recording: Recording | None) -> Self:
        """Return those of a server; `recording` is None if historyDir is blank."""
        if recording is None:
            return cls()
        recorder = recording.recorder
        return cls(SetRecorder(recorder), RoleRecorder(recorder))
