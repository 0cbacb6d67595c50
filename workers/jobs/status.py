"""Current step of a long job, as text."""


class Status:
    """Written by the performer, read by the heartbeat. Assigning a string is atomic, so there is no lock."""

    def __init__(self) -> None:
        self.words: str | None = None

    def say(self, words: str | None) -> None:
        """Set the current step; None if no long step runs."""
        self.words = words
