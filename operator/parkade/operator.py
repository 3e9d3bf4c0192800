"""Kopf's part: watches, and nothing else. No finalizer, no annotation, no write of its own.

Index handlers put every body into the views before any event handler runs, so the first event
handler that runs tells that the views are complete. Event handlers mark what was deleted. What a
pass does is in `controller/`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

import kopf

from parkade.adapters import rbac
from parkade.adapters.errors import AdapterError, NotFoundError
from parkade.adapters.rbac import Resource
from parkade.controller.lease import Lease, keep, take
from parkade.controller.process import Process, label_selector

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 30.0
EXIT_SECONDS = 15.0
WATCH_TASK = "watcher for "
"""How Kopf names the task of each watch."""
STOP_LOOK_SECONDS = 0.2
FIRST_REWATCH_SECONDS = 2.0
MAX_REWATCH_SECONDS = 60.0
"""A right that is missing is asked for again and again, and each time Kopf logs a page."""
RETRY_SECONDS = 2.0


def build_registry(process: Process) -> kopf.OperatorRegistry:
    """Return an explicit registry with an index and an event handler for each watched kind."""
    registry = kopf.OperatorRegistry()
    _register_process(registry, process)
    for resource in rbac.WATCHED:
        _register_kind(registry, process, resource)
    return registry


def build_settings() -> kopf.OperatorSettings:
    """Return Kopf's settings: filtered watches, no scanning, no posting."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.request_timeout = REQUEST_TIMEOUT_SECONDS
    settings.process.ultimate_exiting_timeout = EXIT_SECONDS
    for resource in rbac.WATCHED:
        selector = label_selector(resource)
        if selector:
            # A tuple: keys with slashes silently match nothing.
            key = (resource.group, resource.version, resource.plural)
            settings.watching.label_selectors[key] = selector
    return settings


def run(process: Process, lease: Lease | None) -> int:
    """Run until a signal or a lost lease; return the exit status. Blocks.

    Probes answer from the start; nothing is watched or written before the lease is ours.
    """
    lost = threading.Event()
    _stop_on_signals(process)
    process.start()
    try:
        if lease is not None:
            if not take(lease, process.stopping):
                return 0
            _keep_in_thread(lease, process, lost)
        if not _wait_for_resource(process):
            return 0
        asyncio.run(_watch(process))
    finally:
        process.stop()
        if lease is not None and not lost.is_set():
            lease.release()
    return 1 if lost.is_set() else 0


def _wait_for_resource(process: Process) -> bool:
    """Wait until the API server knows the resource; False where the process is to stop.

    Kopf looks once, and would never watch a resource that is installed a moment later.
    """
    while not process.stopping.is_set():
        try:
            process.cluster.list(rbac.ENDPOINTS, next(iter(process.settings.namespaces), None))
        except NotFoundError:
            logger.warning("The CRD is not installed: parkade crd | kubectl apply -f -")
        except AdapterError as error:
            logger.warning("The API server does not answer: %s", error)
        else:
            return True
        process.stopping.wait(RETRY_SECONDS)
    return False


async def _watch(process: Process) -> None:
    """Run Kopf until the process is to stop; raises what ends Kopf otherwise.

    Kopf lets a watch fail for good where the API server refuses it once (403, 410, an error within
    the stream), and goes on without it. Then all of them start anew.
    """
    wait = FIRST_REWATCH_SECONDS
    try:
        while not process.stopping.is_set():
            began = time.monotonic()
            if not await _watch_until_one_fails(process):
                return
            lasted = time.monotonic() - began
            wait = FIRST_REWATCH_SECONDS if lasted > MAX_REWATCH_SECONDS else wait
            process.blind()
            await asyncio.to_thread(process.stopping.wait, wait)
            wait = min(2 * wait, MAX_REWATCH_SECONDS)
    finally:
        process.stopping.set()


async def _watch_until_one_fails(process: Process) -> bool:
    """Run Kopf once; False where it ended otherwise: by a signal, which it takes itself."""
    stop_flag, ready_flag = asyncio.Event(), asyncio.Event()
    failed: list[str] = []

    def start_anew(watch: str) -> None:
        logger.error("The %s failed: all watches start anew", watch)
        failed.append(watch)
        stop_flag.set()

    _when_a_watch_fails(start_anew)
    namespaces = process.settings.namespaces
    helpers = [
        asyncio.create_task(_stop_when(process, stop_flag)),
        asyncio.create_task(_tell_when_ready(process, ready_flag)),
    ]
    try:
        await kopf.operator(
            registry=build_registry(process),
            settings=build_settings(),
            standalone=True,
            # Kopf would look its own name up in the user database, where a numeric user is not.
            identity=cast("Any", f"parkade@{socket.gethostname()}"),
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop_flag,
            ready_flag=ready_flag,
        )
    except Exception:
        if not failed:
            raise
        logger.debug("Kopf ended with the watch that failed", exc_info=True)
    finally:
        for helper in helpers:
            helper.cancel()
    return bool(failed)


async def _stop_when(process: Process, stop_flag: asyncio.Event) -> None:
    while not process.stopping.is_set():  # noqa: ASYNC110 - set by threads and signals
        await asyncio.sleep(STOP_LOOK_SECONDS)
    stop_flag.set()


def _when_a_watch_fails(tell: Callable[[str], None]) -> None:
    """Kopf tells nobody, but the tasks of its watches have names."""

    def look(task: asyncio.Task[Any]) -> None:
        failed = not task.cancelled() and task.exception() is not None
        if failed and task.get_name().startswith(WATCH_TASK):
            tell(task.get_name())

    def make(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        task.add_done_callback(look)
        return task

    asyncio.get_running_loop().set_task_factory(make)  # type: ignore[arg-type]


async def _tell_when_ready(process: Process, ready_flag: asyncio.Event) -> None:
    await ready_flag.wait()
    process.watching()


def _keep_in_thread(lease: Lease, process: Process, lost: threading.Event) -> None:
    def on_lost(problem: str) -> None:
        logger.error("The lease %s/%s is lost: %s", lease.namespace, lease.name, problem)
        lost.set()
        process.stopping.set()
        # Two operators at once are worse than a pass that is cut off.
        threading.Timer(EXIT_SECONDS, os._exit, (1,)).start()

    threading.Thread(
        target=keep, args=(lease, process.stopping, on_lost), name="lease", daemon=True
    ).start()


def _stop_on_signals(process: Process) -> None:
    """Kopf takes the signals over once it runs; before that we may wait for the lease."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: process.stopping.set())


def _register_process(registry: kopf.OperatorRegistry, process: Process) -> None:
    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        found = process.cluster.login()
        return kopf.ConnectionInfo(
            server=found.server,
            ca_path=found.ca_path,
            insecure=found.insecure,
            certificate_path=found.certificate_path,
            private_key_path=found.private_key_path,
            scheme=found.scheme,
            token=found.token,
        )


def _register_kind(registry: kopf.OperatorRegistry, process: Process, resource: Resource) -> None:
    where = (resource.group, resource.version, resource.plural)

    @kopf.index(*where, id=f"seen_{resource.plural}", registry=registry)
    async def index(body: kopf.Body, **_: Any) -> None:
        process.saw(resource, _slim(body))

    @kopf.on.event(*where, id=f"event_{resource.plural}", registry=registry)
    async def event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - Kopf's word
        process.views_complete()
        if type == "DELETED":
            process.deleted(resource, _slim(body))


def _slim(body: kopf.Body) -> dict[str, Any]:
    """Return the body without `managedFields`, which are half of it and nobody reads."""
    raw = dict(body)
    meta = dict(raw.get("metadata") or {})
    meta.pop("managedFields", None)
    return {**raw, "metadata": meta}
