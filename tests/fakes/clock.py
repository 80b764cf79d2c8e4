"""A clock that moves when a test says so."""


class FakeClock:
    """Starts at a moment of its own; both of its clocks move together."""

    def __init__(self, now_ms=1_000_000, unix_ms=1_800_000_000_000):
        self._now_ms = now_ms
        self._unix_ms = unix_ms

    def now_ms(self):
        return self._now_ms

    def unix_ms(self):
        return self._unix_ms

    def pass_ms(self, ms):
        self._now_ms += ms
        self._unix_ms += ms

    def set_back_ms(self, ms):
        """Set the time of day back, as an administrator does; monotonic time goes on."""
        self._unix_ms -= ms

    def leap_ms(self, ms):
        """Set the time of day ahead."""
        self._unix_ms += ms
