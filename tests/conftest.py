"""What all tests share."""

pytest_plugins = ["testbed.cluster.fixtures"]
