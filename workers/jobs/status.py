"""What a long job is at, in words."""


class Status:
    """Written by whoever performs the job, read by the heartbeat; a string is replaced as a whole, so no lock."""

    def __init__(self) -> None:
        self.words: str | None = None

    def say(self, words: str | None) -> None:
        """Tell what is done from now on; None: nothing that takes long."""
        self.words = words
