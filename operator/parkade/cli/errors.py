"""What the command line says when it cannot go on: one line and an exit status."""


class UsageError(Exception):
    """Bad input: the message is one line that says what is wrong and what to do (status 2)."""


class CannotSize(Exception):  # noqa: N818 - a stated outcome, not a fault of the input
    """The input is in order but cannot be sized; the message is one line (status 1)."""
