"""The images of the test cluster: a base, a pause image, and whatever a Dockerfile describes."""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from testbed.cluster.packages import find_program
from testbed.cluster.processes import run
from testbed.images.buildah import (
    buildah,
    buildah_with_progress,
    contained,
    images_folder,
    images_lock,
    machine_volumes,
    require_buildah,
)

SUITE = "bookworm"
BASE_PACKAGES = ("python3", "python3-venv", "ca-certificates")
# Documentation and translations are a quarter of a minimal Debian.
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
BASE = f"localhost/parkade-base:{SUITE}"
PAUSE = f"localhost/parkade-pause:{SUITE}"
BASE_DOCKERFILE = "FROM scratch\nADD base.tar /\n"
# The sandbox of a pod only has to stay: no layer of its own.
PAUSE_DOCKERFILE = f'FROM {BASE}\nENTRYPOINT ["/bin/sleep", "infinity"]\n'


def ensure_base() -> str:
    """The name of an image with Debian and Python, made from Debian's packages once.

    A Dockerfile gets it as its `FROM`, in place of an image of a registry. Raises TestbedError
    with one line when this machine can't build images.
    """
    require_buildah()
    with images_lock():
        if not _exists(BASE):
            _make_base()
        if not _exists(PAUSE):
            _build_text(PAUSE, PAUSE_DOCKERFILE, {})
    return BASE


def build_image(
    dockerfile: Path, context: Path, tag: str, build_args: Mapping[str, str] | None = None
) -> str:
    """Build `dockerfile` under the name `tag`; returns the image's id. Layers are cached.

    Only local images serve as `FROM`: `ensure_base()` makes one.
    """
    require_buildah()
    arguments = [f"--build-arg={name}={value}" for name, value in (build_args or {}).items()]
    with images_lock():
        buildah_with_progress(
            f"Building the image {tag}",
            "build", "--pull-never", "--layers", "--network=host", *machine_volumes(),
            *arguments, f"--file={dockerfile}", f"--tag={tag}", context,
        )  # fmt: skip
    return image_id(tag)


def image_id(tag: str) -> str:
    """The id of a local image: the same content has the same id."""
    return buildah("inspect", "--type=image", "--format={{.FromImageID}}", tag).strip()


def export_archive(tag: str) -> Path:
    """The image as an OCI archive in the cache, written once for each content."""
    require_buildah()
    with images_lock():
        name = hashlib.sha256(f"{tag}\0{image_id(tag)}".encode()).hexdigest()[:16]
        archive = images_folder() / "archives" / f"{name}.tar"
        archive.parent.mkdir(exist_ok=True)
        if not archive.exists():
            _forget_older_archives(tag, archive)
            unfinished = archive.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            buildah("push", "--quiet", tag, f"oci-archive:{unfinished}:{tag}")
            unfinished.rename(archive)
            archive.with_suffix(".name").write_text(tag, encoding="utf-8")
    return archive


def _forget_older_archives(tag: str, kept: Path) -> None:
    for name in kept.parent.glob("*.name"):
        if name.read_text(encoding="utf-8") == tag:
            name.with_suffix(".tar").unlink(missing_ok=True)
            name.unlink()


def _exists(tag: str) -> bool:
    return bool(buildah("images", "--quiet", "--filter", f"reference={tag}").strip())


def _make_base() -> None:
    print(
        "Making the base image from Debian's packages: about a minute", file=sys.stderr, flush=True
    )
    with tempfile.TemporaryDirectory(prefix="parkade-base-") as folder:
        Path(folder).chmod(0o755)  # Debian's package manager downloads as a user of its own
        archive = Path(folder) / "base.tar"
        run(
            *contained(find_program("mmdebstrap")), "--quiet", "--variant=minbase",
            f"--include={','.join(BASE_PACKAGES)}",
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT),
            SUITE, archive, extra_environment={"TMPDIR": folder},
        )  # fmt: skip
        _build_text(BASE, BASE_DOCKERFILE, {"base.tar": archive})


def _build_text(tag: str, dockerfile: str, files: Mapping[str, Path]) -> None:
    with tempfile.TemporaryDirectory(prefix="parkade-image-") as folder:
        for name, source in files.items():
            shutil.move(source, Path(folder) / name)
        (Path(folder) / "Dockerfile").write_text(dockerfile, encoding="utf-8")
        buildah("build", "--quiet", "--pull-never", f"--tag={tag}", folder)
