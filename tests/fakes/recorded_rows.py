"""What a recorder writes, read back."""

import json

from history.recorder import Recorder, RecorderIdentity
from remoting.clock import SystemClock
from serving.config.options import LONG_MAX


class Unobserved:
    """Nothing is reported of the recording itself."""

    def recording_stopped(self, error):
        raise error

    def recording_resumed(self):
        pass

    def history_deleted(self, deleted):
        raise AssertionError(deleted)


def recorded(folder, family, work):
    """The rows of a family that come of what is done with a Recorder."""
    identity = RecorderIdentity("host:9878", "controller", "1.0", "127.0.0.1:9878")
    recorder = Recorder(folder, identity, SystemClock(), Unobserved(), LONG_MAX)
    recorder.start()
    work(recorder)
    recorder.close()
    return landed(folder, family)


def recorded_events(folder, family, events):
    """The rows of a family that come of events."""

    def work(recorder):
        for event in events:
            for row in event.rows():
                recorder.enqueue(row)

    return recorded(folder, family, work)


def landed(folder, family):
    """The rows of a family below a folder."""
    files = sorted(folder.glob(f"**/family={family}/**/*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]
