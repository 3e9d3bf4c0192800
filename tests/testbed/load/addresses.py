"""Only engines on this machine get load: a wrong address must never reach somebody's service.

Allowed are loopback, the machine's own addresses, and private networks behind its own bridges or
behind a test node's link, where pods live. Other networks have other machines in them.
"""

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from testbed.load.errors import LoadError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B
_INTERFACES = Path("/sys/class/net")
_ROUTES = Path("/proc/net/route")
NODE_LINK_PREFIX = "parkade-"
"""Name of the link to a test node, which has a network namespace of its own."""


def checked(url: str) -> tuple[str, int, str]:
    """Host address, port and path of an engine on this machine; raises LoadError for any other."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise LoadError(f"{url!r} is not an address of an engine: write http://127.0.0.1:8000")
    try:
        port = parts.port or 80
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise LoadError(f"{url!r} has no address: {error}") from None
    addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
    for address in addresses:
        if not is_local(address):
            raise LoadError(
                f"{url!r} leads to {address}, which is not on this machine: load is sent to "
                "loopback, to this machine's own addresses and to pods behind its bridges"
            )
    return str(addresses[0]), port, parts.path.rstrip("/")


def is_local(address: Address) -> bool:
    """Whether nothing but this machine can answer at the address."""
    if address.is_loopback:
        return True
    if isinstance(address, ipaddress.IPv6Address):
        return False
    return any(
        address == own.ip or (bridge and own.network.is_private and address in own.network)
        for own, bridge in _own_networks()
    ) or any(network.is_private and address in network for network in _behind_node_links())


def _behind_node_links() -> Iterator[ipaddress.IPv4Network]:
    """Networks that are routed over a test node's link (route(8): little-endian hexadecimal)."""
    if not _ROUTES.exists():
        return
    for line in _ROUTES.read_text(encoding="ascii").splitlines()[1:]:
        name, destination, *_, mask = line.split()[:8]
        if name.startswith(NODE_LINK_PREFIX):
            numbers = [int.from_bytes(bytes.fromhex(one), "little") for one in (destination, mask)]
            yield ipaddress.IPv4Network((numbers[0], ipaddress.IPv4Address(numbers[1]).exploded))


def _own_networks() -> Iterator[tuple[ipaddress.IPv4Interface, bool]]:
    """This machine's IPv4 addresses with their networks, and whether each is a bridge's."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                own = _asked(probe, name, _SIOCGIFADDR)
                mask = _asked(probe, name, _SIOCGIFNETMASK)
            except OSError:
                continue
            bridge = (_INTERFACES / name / "bridge").is_dir()
            yield ipaddress.IPv4Interface(f"{own}/{mask}"), bridge


def _asked(probe: socket.socket, name: str, what: int) -> str:
    request = struct.pack("256s", name.encode()[:15])
    return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), what, request)[20:24])
