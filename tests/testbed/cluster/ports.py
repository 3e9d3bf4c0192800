"""Free TCP ports for programs that can't be told to choose one themselves."""

import random
import socket

# Below Linux's range for outgoing connections (32768 and up): such a connection can't take a
# port between our look and the program's bind.
FIRST, LAST = 20000, 32000


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Different ports that nobody listens on just now; random, since many runs share a machine."""
    found: list[int] = []
    while len(found) < count:
        port = random.randint(FIRST, LAST)
        if port not in found and _is_free(address, port):
            found.append(port)
    return found


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
