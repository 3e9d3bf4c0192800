"""The resource that a plan is made for, read from a file as strictly as the API server reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from parkade.cli.documents import read_yaml_objects
from parkade.cli.errors import UsageError

if TYPE_CHECKING:
    from parkade.api.endpoint import Endpoint

_TOP_LEVEL = {"apiVersion", "kind", "metadata", "spec", "status"}
_MAX_NAMESPACE_LENGTH = 63
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def read_endpoint(path: str) -> Endpoint:
    """Return the resource of a file, read strictly: unknown fields are refused."""
    from parkade.api import names  # noqa: PLC0415
    from parkade.api.endpoint import InvalidEndpoint, parse_endpoint  # noqa: PLC0415

    documents = _unlisted(read_yaml_objects(path, "resource file"))
    ours = [one for one in documents if one.get("kind") == names.KIND]
    if len(ours) != 1:
        kinds = ", ".join(str(one.get("kind", "no kind"))[:40] for one in documents[:5])
        raise UsageError(
            f"resource file {path!r} must have one {names.KIND}, and has {len(ours)} "
            f"(found: {kinds or 'nothing'}): put it in a file of its own"
        )
    body = ours[0]
    _check_envelope(body, path)
    _refuse_hint(body, path)
    endpoint = parse_endpoint(body, strict=True)
    if isinstance(endpoint, InvalidEndpoint):
        raise UsageError(f"resource file {path!r}: {endpoint.message}")
    return endpoint


def _unlisted(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents with the items of lists, as `kubectl get -o yaml` prints them."""
    found: list[dict[str, Any]] = []
    for one in documents:
        items = one.get("items")
        if str(one.get("kind", "")).endswith("List") and isinstance(items, list):
            found += [item for item in items if isinstance(item, dict)]
        else:
            found.append(one)
    return found


def _check_envelope(body: dict[str, Any], path: str) -> None:
    from parkade.api import names  # noqa: PLC0415

    unknown = sorted(str(key) for key in set(body) - _TOP_LEVEL)
    if unknown:
        raise UsageError(f"resource file {path!r}: {unknown[0]} is not a field of a resource")
    if body.get("apiVersion") != names.API_VERSION:
        raise UsageError(
            f"resource file {path!r}: apiVersion is {body.get('apiVersion')!r}, not "
            f"{names.API_VERSION}"
        )
    meta = body.get("metadata")
    if not isinstance(meta, dict) or "name" not in meta:
        raise UsageError(f"resource file {path!r}: metadata.name is missing")
    name = str(meta["name"])
    if not _DNS_LABEL.fullmatch(name) or len(name) > names.MAX_NAME_LENGTH:
        raise UsageError(
            f"resource file {path!r}: metadata.name {name[:60]!r} is not a DNS label of at most "
            f"{names.MAX_NAME_LENGTH} characters"
        )
    namespace = meta.get("namespace")
    if namespace is not None and not (
        isinstance(namespace, str)
        and _DNS_LABEL.fullmatch(namespace)
        and len(namespace) <= _MAX_NAMESPACE_LENGTH
    ):
        raise UsageError(
            f"resource file {path!r}: metadata.namespace {str(namespace)[:70]!r} is not a DNS "
            f"label of at most {_MAX_NAMESPACE_LENGTH} characters"
        )
    if not isinstance(body.get("spec"), dict):
        raise UsageError(f"resource file {path!r}: spec is missing")
    annotations = meta.get("annotations")
    if annotations is not None and not isinstance(annotations, dict):
        raise UsageError(f"resource file {path!r}: metadata.annotations is not an object")
    generation = meta.get("generation", 0)
    if isinstance(generation, bool) or not isinstance(generation, int):
        raise UsageError(f"resource file {path!r}: metadata.generation is not a whole number")


def _refuse_hint(body: dict[str, Any], path: str) -> None:
    """Name the engine's hint before the general rule on flags refuses it without the reason."""
    from parkade.sizing.engine_args import hint_in  # noqa: PLC0415

    engine = body["spec"].get("engine")
    if not isinstance(engine, dict):
        return
    arguments, env = engine.get("extraArgs"), engine.get("env")
    problem = hint_in(
        [one for one in arguments if isinstance(one, str)] if isinstance(arguments, list) else [],
        [one for one in env if isinstance(one, dict)] if isinstance(env, list) else [],
    )
    if problem is not None:
        raise UsageError(f"resource file {path!r}: spec.{problem}")
