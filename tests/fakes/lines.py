"""Takes log lines in memory, as an output that is always ready."""

import msgspec


class Lines(list):
    dropped = 0
    closed_within_s = None

    def put(self, line):
        self.append(line)

    def close(self, timeout_s):
        self.closed_within_s = timeout_s

    def decoded(self):
        """Return the events; some lines are none."""
        return [msgspec.json.decode(line) for line in self if line.startswith(b"{")]
