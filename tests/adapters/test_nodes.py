"""What nodes say of their cards, and what is no number among it."""

import pytest

from parkade.adapters import nodes


@pytest.mark.parametrize(
    ("labels", "allocatable", "expected"),
    [
        pytest.param(
            {"nvidia.com/gpu.product": "B", "nvidia.com/gpu.memory": "1024"},
            {"nvidia.com/gpu": "8"},
            nodes.GpuNodes("B", 1, 8, 1024 * 2**20),
            id="a node with eight cards",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "B", "nvidia.com/gpu.memory": "lots"},
            {},
            nodes.GpuNodes("B", 1, 0, None),
            id="a label that is no number, and no card left",
        ),
        pytest.param(
            {"nvidia.com/gpu.product": "B", "nvidia.com/gpu.memory": "99999999999"},
            {"nvidia.com/gpu": "-1"},
            nodes.GpuNodes("B", 1, 0, None),
            id="absurd figures",
        ),
        pytest.param({}, {"nvidia.com/gpu": "8"}, None, id="no product label"),
    ],
)
def test_nodes_tell_of_their_cards(labels, allocatable, expected):
    node = {"metadata": {"labels": labels}, "status": {"allocatable": allocatable}}
    assert nodes.summarize([node]).get("B") == expected


def test_the_smallest_card_of_a_product_counts():
    def node(memory):
        return {
            "metadata": {"labels": {"nvidia.com/gpu.product": "B", "nvidia.com/gpu.memory": memory}}
        }

    assert nodes.summarize([node("2048"), node("1024"), node("x")])["B"].memory_bytes == 2**30
