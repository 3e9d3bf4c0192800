"""What nodes say of cards, and what a list that fails means."""

import pytest

from parkade.api.conditions import Reason
from parkade.controller.hardware import KEEP_SECONDS, TOTAL_OF_LABEL, Hardware
from parkade.sizing.workload import CannotTell
from support.clusters import cluster_at, status
from support.servers import Reply, serving
from testbed.waiting import wait_until

LABELS = {"nvidia.com/gpu.product": "ACME-X1", "nvidia.com/gpu.memory": "81920"}
NODE = {"metadata": {"name": "n", "labels": LABELS}, "status": {"allocatable": {}}}
NODES = Reply(body={"items": [NODE]})
LABEL_BYTES = 81920 * 2**20


@pytest.fixture
def ask(clock):
    """Ask about a product, wait for the next answer of the API server, and ask again."""

    def made(*replies, every_seconds=10):
        left, heard = list(replies), []
        with serving(lambda _asked: left.pop(0) if len(left) > 1 else left[0]) as served:
            hardware = Hardware(cluster_at(served.url), clock, lambda: heard.append(1))
            found = []
            for count in range(1, len(replies) + 1):
                hardware.memory_bytes("ACME-X1")
                wait_until(lambda count=count: len(heard) >= count, "an answer", 10)
                found.append(hardware.memory_bytes("ACME-X1"))
                clock.now += every_seconds
            hardware.stop()
        return found

    return made


def test_the_label_says_a_little_more_than_the_engine(ask):
    assert ask(NODES) == [int(LABEL_BYTES * TOTAL_OF_LABEL)]


def test_a_list_that_fails_is_no_word_of_the_nodes_and_is_tried_again_soon(ask):
    first, second = ask(status(503, "down"), NODES)
    assert isinstance(first, CannotTell)
    assert first.reason is Reason.INITIALIZING
    assert second == int(LABEL_BYTES * TOTAL_OF_LABEL)


def test_a_right_that_is_taken_away_later_does_not_unsay_what_nodes_said(ask):
    first, second = ask(NODES, status(403, "no"), every_seconds=KEEP_SECONDS)
    assert first == second == int(LABEL_BYTES * TOTAL_OF_LABEL)


def test_without_the_right_to_list_them_no_node_says_anything(ask):
    assert ask(status(403, "no")) == [None]
