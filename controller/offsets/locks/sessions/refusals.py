"""Why a request to the lock service is refused as a whole; nothing of it is done."""


class LocksRefused(Exception):
    """The sentence says what is wrong and what to do."""


class SessionEnded(LocksRefused):
    """The lease of a session is over, or there never was one: its queues may belong to others."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"session {session_id} has ended: drop what is cached of its queues, open a new session, acquire the "
            "queues again and read their offsets"
        )


class LeadUncertain(LocksRefused):
    """Another manager may lead already, and may have granted any queue."""

    def __init__(self) -> None:
        super().__init__("this offset manager may not lead any more: repeat the request, at the one that leads")


class SessionRefused(LocksRefused):
    """A session cannot be opened as requested."""


class TooManySessions(LocksRefused):
    """As many sessions are open as may be; some end when they are closed, or not renewed."""


class TooManyQueues(LocksRefused):
    """A request names more queues than one decision may take."""

    def __init__(self, queues: int, queues_max: int) -> None:
        self.queues, self.queues_max = queues, queues_max
        super().__init__(f"{queues} queues in one request, at most {queues_max} are allowed: split it")


class TransferRefused(LocksRefused):
    """A queue cannot be handed to this client."""


class GroupRefused(LocksRefused):
    """A group cannot be declared, or be what it is declared."""


class ForceRefused(LocksRefused):
    """A queue cannot be taken from its holder."""
