"""What all tests share."""

import os

from hypothesis import settings

# A gate must not fail by the luck of a draw: it plays the same examples every time. People's runs
# draw new ones, and `make simulate` thousands.
settings.register_profile("gate", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("gate")

pytest_plugins = ["testbed.cluster.fixtures"]
