"""What all tests share."""

import os

from hypothesis import settings

# A gate must not fail by the luck of a draw: it plays the same examples every time. People's runs
# draw new ones, and `make simulate` thousands.
# Cores are shared, so how long one example takes says nothing.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("people", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "people")

pytest_plugins = ["testbed.cluster.fixtures", "support.fixtures"]
