"""What can be wrong with an order for load."""


class LoadError(ValueError):
    """The load cannot be made as ordered; the message is one line and names the cure."""
