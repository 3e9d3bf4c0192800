"""The traffic of a plan: a file, saved metrics pages, or a live Prometheus; gated as ever."""

from __future__ import annotations

import argparse
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from parkade.api.conditions import Reason
from parkade.cli import metrics_page
from parkade.cli.documents import parse_yaml_objects, read_text
from parkade.cli.errors import UsageError
from parkade.cli.traffic_file import read_traffic
from parkade.sizing.gates import WorkloadReading, gate
from parkade.sizing.workload import CannotTell, Workload

if TYPE_CHECKING:
    from parkade.adapters.vllm_metrics import Scope
    from parkade.api.endpoint import Endpoint

_ADDRESS = r"https?://[^\s/]+(/\S*)?"


def read_workload(args: argparse.Namespace, endpoint: Endpoint) -> Workload | CannotTell:
    """Return the traffic that the arguments name, gated as the operator gates it."""
    spec = endpoint.spec.workload
    if args.prometheus is not None:
        reading = _live(args, endpoint)
    elif args.traffic:
        reading = _saved(args.traffic, max(1, endpoint.spec.replicas))
    else:
        return CannotTell(Reason.NO_TRAFFIC, "No traffic was given (--traffic, --prometheus).")
    return gate(reading, min_requests=spec.min_requests)


def _live(args: argparse.Namespace, endpoint: Endpoint) -> WorkloadReading:
    """Ask a Prometheus for the pods, as the operator does."""
    from parkade.adapters.errors import AdapterError  # noqa: PLC0415 - start-up time
    from parkade.adapters.prometheus import Prometheus, Server  # noqa: PLC0415
    from parkade.adapters.traffic import read_traffic as read_live  # noqa: PLC0415

    url = args.prometheus
    if not _is_address(url):
        raise UsageError(
            f"--prometheus {url[:100]!r} is not the address of a server, as http://host:9090"
        )
    scope, key = _scope(args, endpoint)
    try:
        traffic = read_live(Prometheus(Server(url)), scope, at=time.time())
    except AdapterError as error:
        raise UsageError(f"--prometheus: {error}") from error
    return traffic.reading(key, expected_pods=())


def _is_address(url: str) -> bool:
    """Whether a client can ask there at all: a host of labels that names can have, and a port."""
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except (ValueError, UnicodeError):
        return False
    return bool(host) and re.fullmatch(_ADDRESS, url) is not None


def _scope(args: argparse.Namespace, endpoint: Endpoint) -> tuple[Scope, tuple[str, str]]:
    """Return what is asked, and under which key the answer stands."""
    from parkade.adapters.vllm_metrics import DeploymentScope, Scope  # noqa: PLC0415

    window, namespaces = endpoint.spec.workload.window_seconds, (endpoint.namespace,)
    if not args.deployment:
        return Scope(window, namespaces=namespaces), (endpoint.namespace, endpoint.name)
    scope = DeploymentScope(window, namespaces=namespaces, deployment=endpoint.name)
    return scope, (endpoint.namespace, "")


def _saved(paths: list[str], pods: int) -> WorkloadReading:
    """Return what files say: a traffic file of the endpoint's `pods`, or pages of one engine."""
    if len(paths) > 2:
        raise UsageError(f"--traffic takes one file or two metrics pages, not {len(paths)}")
    texts = [read_text(path, "traffic file") for path in paths]
    for path, text in zip(paths, texts, strict=True):
        if text.lstrip().startswith("<"):
            raise UsageError(
                f"{path!r} is a page of HTML: give a traffic file, or what "
                "`curl http://POD:8000/metrics` prints"
            )
    pages = [metrics_page.is_metrics_page(text) for text in texts]
    if not any(pages):
        if len(paths) == 2:
            raise UsageError("--traffic takes one traffic file; two files must be metrics pages")
        documents = parse_yaml_objects(texts[0], paths[0], "traffic file")
        if len(documents) > 1:
            raise UsageError(
                f"traffic file {paths[0]!r} has {len(documents)} documents: give one a file"
            )
        return read_traffic(documents[0], paths[0], pods)
    if not all(pages):
        raise UsageError("--traffic takes two metrics pages, and one of these is a traffic file")
    parsed = [metrics_page.parse_page(text, path) for text, path in zip(texts, paths, strict=True)]
    page = parsed[0]
    if len(parsed) == 2:
        page = metrics_page.difference(parsed[0], parsed[1], (paths[0], paths[1]))
    return metrics_page.reading(page, len(parsed))
