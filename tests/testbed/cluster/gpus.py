"""What a node with GPUs looks like to Kubernetes, written by hand where there is no GPU."""

from dataclasses import dataclass

RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of a node, as the device plugin and the GPU feature discovery show them.

    `memory_mib` is what the label `nvidia.com/gpu.memory` carries: MiB of one card.
    """

    product: str = "NVIDIA-B200"
    count: int = 8
    memory_mib: int = 183359

    def labels(self) -> dict[str, str]:
        return {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": self.product,
            "nvidia.com/gpu.count": str(self.count),
            "nvidia.com/gpu.memory": str(self.memory_mib),
        }

    def capacity_patch(self) -> list[dict[str, str]]:
        """A JSON patch of the node's status; the kubelet keeps what it doesn't manage."""
        path = f"/status/capacity/{RESOURCE.replace('/', '~1')}"
        return [{"op": "add", "path": path, "value": str(self.count)}]
