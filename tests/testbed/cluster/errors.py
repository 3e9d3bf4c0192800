"""What can go wrong with the test cluster, as one line that says what to do."""


class TestbedError(RuntimeError):
    """The test cluster cannot do what was asked; the message is one clear line."""

    __test__ = False  # not a test class, whatever its name


class PortTakenError(TestbedError):
    """A program could not listen where it was told to; another port will do."""
