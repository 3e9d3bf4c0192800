"""The operator as a process of its own that is killed and started again.

Processes are forked from a server that has imported the operator once, so a life starts in a
moment; SIGKILL ends it wherever it is. What it logs goes to a file.
"""

import contextlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["parkade.operator", "parkade.controller.process", "kubernetes", "support.operators"]
)


def live(kubeconfig: str, raw_settings: dict[str, Any], log: str, lease_namespace: str) -> None:
    """One life: what `parkade run` does, with settings as a value. Runs in the child."""
    import time  # noqa: PLC0415 - all of this is imported in the child

    from parkade import operator  # noqa: PLC0415
    from parkade.adapters.kubeconfig import connect  # noqa: PLC0415
    from parkade.controller.lease import Lease  # noqa: PLC0415
    from parkade.controller.process import Process  # noqa: PLC0415
    from parkade.controller.settings import read_settings  # noqa: PLC0415

    handler = logging.FileHandler(log, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(process)d %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    settings = read_settings(raw_settings)
    cluster = connect(kubeconfig)
    lease = None
    if lease_namespace:
        identity = f"operator-{os.getpid()}"
        lease = Lease(cluster, lease_namespace, settings.lease_name, identity, time.monotonic)
    raise SystemExit(operator.run(Process(cluster, settings), lease))


class Life:
    """One process."""

    def __init__(
        self, kubeconfig: Path, settings: dict[str, Any], log: Path, lease_namespace: str = ""
    ) -> None:
        arguments = (str(kubeconfig), settings, str(log), lease_namespace)
        self._process = CONTEXT.Process(target=live, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        """SIGKILL: it ends between any two instructions."""
        self._process.kill()
        self._process.join(10)

    def terminate(self) -> None:
        """SIGTERM, as on an upgrade of the chart."""
        self._process.terminate()
        self._process.join(30)

    def close(self) -> None:
        self.kill()
        with contextlib.suppress(ValueError):
            self._process.close()


class Supervisor:
    """Starts the operator anew whenever it was killed, as a kubelet does."""

    def __init__(self, kubeconfig: Path, settings: dict[str, Any], log: Path) -> None:
        self._start = (kubeconfig, settings, log)
        self._lock = threading.Lock()
        self._stopped = False
        self.life: Life | None = None
        self.lives = 0

    def begin(self) -> None:
        with self._lock:
            if not self._stopped:
                self.life = Life(*self._start)
                self.lives += 1

    def kill(self) -> None:
        """End this life; the caller begins the next."""
        with self._lock:
            if self.life is not None:
                self.life.close()
                self.life = None

    def end(self) -> None:
        with self._lock:
            self._stopped = True
        self.kill()


@contextmanager
def supervised(kubeconfig: Path, settings: dict[str, Any], log: Path) -> Iterator[Supervisor]:
    """A supervised operator for the length of a block."""
    supervisor = Supervisor(kubeconfig, settings, log)
    supervisor.begin()
    try:
        yield supervisor
    finally:
        supervisor.end()
