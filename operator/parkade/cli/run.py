"""`parkade run`: start the operator."""

from __future__ import annotations

import argparse
import logging
import os
import socket
import time
import uuid
from pathlib import Path

from parkade.cli.errors import CannotSize, UsageError
from parkade.controller.settings import OperatorSettings, SettingsError, load_settings

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; the configuration file has the rest."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration (YAML)")
    parser.add_argument("--kubeconfig", metavar="FILE", help="cluster (default: as kubectl)")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    parser.add_argument(
        "--lease-namespace",
        default=os.environ.get("POD_NAMESPACE") or None,
        metavar="NAME",
        help="where the Lease is (default: POD_NAMESPACE; without either, none is taken)",
    )
    parser.add_argument(
        "--max-concurrent-rollouts",
        type=int,
        metavar="N",
        help="endpoints that tuning may touch at a time in the cluster (default 1)",
    )
    parser.add_argument("--log-level", choices=tuple(LEVELS), help="default: the configuration's")
    parser.add_argument("--log-format", choices=("plain", "json"), default="plain")


def run(args: argparse.Namespace) -> int:
    """Run until a signal; 1 where the lease was lost or the cluster can't be watched."""
    settings = _settings(args)
    _configure_logging(args.log_level or settings.log_level, args.log_format)
    from parkade import operator  # noqa: PLC0415 - Kopf and the client take a second to import
    from parkade.adapters.errors import AdapterError  # noqa: PLC0415
    from parkade.adapters.kubeconfig import connect  # noqa: PLC0415
    from parkade.controller.lease import TIMEOUTS, Lease  # noqa: PLC0415
    from parkade.controller.process import Process  # noqa: PLC0415

    try:
        cluster = connect(args.kubeconfig, args.context)
        lease = None
        if args.lease_namespace:
            impatient = connect(args.kubeconfig, args.context, **TIMEOUTS)
            place = (args.lease_namespace, settings.lease_name)
            lease = Lease(impatient, *place, _identity(), time.monotonic)
    except AdapterError as error:
        raise UsageError(str(error)) from error
    try:
        return operator.run(Process(cluster, settings), lease)
    except OSError as error:
        raise CannotSize(f"the operator can't start: {error}") from error


def _settings(args: argparse.Namespace) -> OperatorSettings:
    try:
        settings = load_settings(args.config)
    except SettingsError as error:
        raise UsageError(str(error)) from error
    if args.max_concurrent_rollouts is None:
        return settings
    if args.max_concurrent_rollouts < 1:
        raise UsageError("--max-concurrent-rollouts must be at least 1")
    return settings.model_copy(update={"max_concurrent_rollouts": args.max_concurrent_rollouts})


def _identity() -> str:
    host = os.environ.get("POD_NAME") or socket.gethostname()
    return f"{host}_{uuid.uuid4().hex[:8]}"


def _configure_logging(level: str, log_format: str) -> None:
    handler = logging.StreamHandler()
    if log_format == "json":
        from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415 - only where asked for

        handler.setFormatter(
            JsonFormatter("%(asctime)s %(levelname)s %(name)s %(threadName)s %(message)s")
        )
    else:
        handler.setFormatter(
            logging.Formatter("%(asctime)s %(levelname)-7s %(threadName)-10s %(message)s")
        )
    logging.basicConfig(level=LEVELS[level], handlers=[handler])
    for chatty in ("kopf", "urllib3", "aiohttp.access", "httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(max(LEVELS[level], logging.WARNING))
