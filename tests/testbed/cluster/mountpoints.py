"""Empty folders of this machine that a node covers with file systems of its own.

Removing a folder also takes away what other mount namespaces have mounted on it, so the last node
that covers one removes it, and only if a node made it.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

# Where node programs write whatever they are told: each gets an empty file system inside.
COVERED = ("/run", "/var/log", "/var/lib/cni", "/var/lib/kubelet", "/opt/containerd")
SOURCE = "parkade-testbed"  # the name of the mounts, by which nodes recognise each other's


def to_be_made() -> list[str]:
    """Missing folders to make before covering, and those another node made; deepest first."""
    found: list[str] = []
    for folder in map(Path, COVERED):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        found += [str(path) for path in missing]
        if not missing and _is_empty(folder) and str(folder) in covered_by_nodes():
            found.append(str(folder))
    return found


def remove(folders: list[str]) -> None:
    """Remove made folders that nobody covers any more and where nobody put anything."""
    still_covered = covered_by_nodes()
    for folder in folders:
        if folder not in still_covered:
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def covered_by_nodes() -> set[str]:
    """Folders that some running node covers, whoever's it is."""
    return {
        fields[1]
        for mounts in _other_mount_tables()
        for fields in (line.split() for line in mounts.splitlines())
        if fields[0] == SOURCE
    }


def _other_mount_tables() -> Iterator[str]:
    seen = {str(Path("/proc/self/ns/mnt").readlink())}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            namespace = str((process / "ns" / "mnt").readlink()) if process.name.isdigit() else ""
            if namespace and namespace not in seen:
                # A process that ends meanwhile has no mounts to tell: the next one has.
                mounts = (process / "mounts").read_text(encoding="utf-8")
                if mounts:
                    seen.add(namespace)
                    yield mounts


def _is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())
