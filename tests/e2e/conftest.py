"""One node, one Prometheus and one world for all stories of a session."""

import pytest

from testbed.demo.world import World, build_images


@pytest.fixture(scope="session")
def world(node, prometheus):
    """The node of the session with the images of the operator and of the simulated engine."""
    made = World.on(node, prometheus, build_images())
    yield made
    made.stop_traffic()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Let the parts of a story know whether the one before went well."""
    report = yield
    if call.when == "call":
        item.went_wrong = report.failed
    return report
