"""`parkade plan`: the whole decision for a resource, offline."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parkade.cli.errors import CannotSize, UsageError
from parkade.cli.plan_case import Case
from parkade.cli.plan_resource import read_endpoint

if TYPE_CHECKING:
    from parkade.api.endpoint import Endpoint
    from parkade.sizing.inputs import SizingInputs
    from parkade.sizing.result import Sizing

_MAX_GIB = 1_000_000.0
_MAX_SPEED = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `parkade plan`."""
    add = parser.add_argument
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "-f",
        "--filename",
        metavar="FILE",
        help="an InferenceEndpoint, YAML or JSON; - is standard input",
    )
    what.add_argument(
        "--deployment", metavar="NAMESPACE/NAME", help="a vLLM Deployment that runs already"
    )
    add("--model-config", metavar="FILE", help="the model's config.json")
    add(
        "--draft-model-config", metavar="FILE", help="config.json of the drafter, if it has its own"
    )
    add(
        "--weights-size",
        metavar="Q",
        type=_size,
        help="weights in memory, as 20Gi (else model.weightsSize)",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--traffic",
        metavar="FILE",
        nargs="+",
        help="a traffic file, or one saved /metrics page of vLLM, or two for their difference",
    )
    source.add_argument("--prometheus", metavar="URL", help="read the traffic from this server")
    add("--gpu-product", metavar="P", help="node label of the card, for a Deployment without one")
    add("--min-output-tokens-per-second", metavar="N", type=_speed, help="for --deployment")
    add("--kubeconfig", metavar="FILE", help="for --deployment (else as kubectl finds it)")
    add("--gpu-total-gib", metavar="T", type=_gib, help="what the engine calls total memory")
    add("--gpu-free-gib", metavar="F", type=_gib, help="free memory at the engine's start")
    add(
        "-o",
        "--output",
        choices=("text", "json", "yaml", "html"),
        default="text",
        help="format (default: text)",
    )
    add("--manifests", action="store_true", help="print the Deployment and the Service instead")


def _size(text: str) -> str:
    from parkade.api.quantity import parse_bytes  # noqa: PLC0415 - start-up time

    if not parse_bytes(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a quantity of bytes above 0, as 20Gi")
    return text


def _speed(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:9]) <= _MAX_SPEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of tokens from 1")
    return int(text)


def _gib(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < _MAX_GIB:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of GiB above 0")
    return value


def run(args: argparse.Namespace) -> int:
    """Print the decision; raise UsageError for bad input, CannotSize where there is none."""
    _check_options(args)
    from parkade.api.conditions import Reason  # noqa: PLC0415 - start-up time
    from parkade.sizing.recommend import NotSizable, recommend  # noqa: PLC0415

    endpoint = _running(args) if args.filename is None else read_endpoint(args.filename)
    inputs = gather(args, endpoint)
    sizing = recommend(inputs)
    if isinstance(sizing, NotSizable):
        if sizing.reason is Reason.BAD_ARGUMENTS:
            raise UsageError(f"spec.{sizing.message}")
        raise CannotSize(f"cannot size this ({sizing.reason}): {sizing.message}")
    printed = _printed(args, Case(endpoint, inputs, sizing))
    for warning in (*_assumptions(endpoint), *_too_long(inputs), *sizing.warnings):
        print(f"parkade: warning: {warning}", file=sys.stderr)
    sys.stdout.write(printed)
    return 0


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that would have no effect: a resource says these things itself."""
    if args.filename is None:
        return
    for name in ("gpu_product", "min_output_tokens_per_second", "kubeconfig"):
        if getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} goes with --deployment; with -f the resource says it")


def _assumptions(endpoint: Endpoint) -> Iterator[str]:
    """Yield what the resource leaves open, and what is taken instead."""
    from parkade.sizing.engine_args import DEFAULT_VERSION, says_version  # noqa: PLC0415

    engine = endpoint.spec.engine
    if engine is None:
        yield (
            "spec.targetRef: the arguments of the Deployment are not in this file, so vLLM's "
            "defaults are taken (one GPU, KV cache dtype auto); `parkade plan --deployment "
            "NAMESPACE/NAME` reads them"
        )
    elif not says_version(engine):
        yield (
            f"the tag of {engine.image} does not say the version of vLLM, so the rules of "
            f"{DEFAULT_VERSION} are taken; set engine.version"
        )


def _too_long(inputs: SizingInputs) -> Iterator[str]:
    """Yield what share of the prompts the engine would refuse."""
    from parkade.sizing.workload import Workload  # noqa: PLC0415 - start-up time

    workload, longest = inputs.workload, inputs.spec.model.max_model_len
    if not isinstance(workload, Workload):
        return
    prompts = workload.prompt_tokens
    over = sum(one.count for one in prompts.buckets() if one.low >= longest)
    if over > 0:
        yield (
            f"{100 * over / prompts.total:.1f} % of the prompts are longer than model.maxModelLen "
            f"{longest:,}: the engine refuses such requests, and the plan counts them"
        )
    elif workload.mean_prompt_tokens > longest:
        yield (
            f"the mean prompt of {workload.mean_prompt_tokens:,.0f} tokens is longer than "
            f"model.maxModelLen {longest:,}: this is not the traffic of such an endpoint"
        )


def _running(args: argparse.Namespace) -> Endpoint:
    """Return a Deployment of the cluster as an endpoint, to advise on."""
    from parkade.cli.configs import read_architecture  # noqa: PLC0415
    from parkade.cli.plan_target import Extra, endpoint_of, read_deployment  # noqa: PLC0415

    if args.manifests:
        raise UsageError("--manifests does not go with --deployment, which is only advised on")
    if args.model_config is None:
        raise UsageError("--model-config is missing: give the model's config.json")
    architecture = read_architecture(Path(args.model_config))
    extra = Extra(
        product=args.gpu_product,
        max_model_len=architecture.max_position_embeddings,
        weights_size=args.weights_size,
        min_output_tokens_per_second=args.min_output_tokens_per_second,
    )
    return endpoint_of(read_deployment(args.deployment, args.kubeconfig), extra)


def gather(args: argparse.Namespace, endpoint: Endpoint) -> SizingInputs:
    """Return the inputs of sizing; raise CannotSize where the model or the card is not known."""
    from parkade.api.quantity import GIB  # noqa: PLC0415
    from parkade.cli.configs import read_architecture  # noqa: PLC0415
    from parkade.cli.plan_traffic import read_workload  # noqa: PLC0415
    from parkade.sizing.cards import device  # noqa: PLC0415
    from parkade.sizing.inputs import SizingInputs  # noqa: PLC0415
    from parkade.sizing.result import NotSizable  # noqa: PLC0415

    if args.model_config is None:
        raise UsageError("--model-config is missing: give the model's config.json")
    draft = args.draft_model_config
    _check_free(args, endpoint)
    card = device(
        endpoint.spec.accelerator,
        total_bytes=None if args.gpu_total_gib is None else round(args.gpu_total_gib * GIB),
        free_bytes=None if args.gpu_free_gib is None else round(args.gpu_free_gib * GIB),
    )
    if isinstance(card, NotSizable):
        raise CannotSize(f"cannot size this ({card.reason}): {card.message}")
    initial = endpoint.spec.tuning.initial
    return SizingInputs(
        spec=endpoint.spec,
        architecture=read_architecture(Path(args.model_config)),
        weights_bytes=_weights(args, endpoint),
        device=card,
        workload=read_workload(args, endpoint),
        in_force=initial.settings if initial else None,
        draft_architecture=None if draft is None else read_architecture(Path(draft)),
    )


def _check_free(args: argparse.Namespace, endpoint: Endpoint) -> None:
    from parkade.api.quantity import GIB, parse_bytes  # noqa: PLC0415

    said = parse_bytes(endpoint.spec.accelerator.memory or "")
    total = args.gpu_total_gib or (said / GIB if said else None)
    if args.gpu_free_gib is not None and total is not None and args.gpu_free_gib > total:
        raise UsageError(
            f"--gpu-free-gib {args.gpu_free_gib:g} is more than the card's total of {total:g} GiB"
        )


def _weights(args: argparse.Namespace, endpoint: Endpoint) -> int | None:
    from parkade.api.quantity import parse_bytes  # noqa: PLC0415

    text = args.weights_size or endpoint.spec.model.weights_size
    if text is None:
        return None
    size = parse_bytes(text)
    if not size:
        raise UsageError(f"model.weightsSize {text!r} is not a quantity of bytes above 0, as 20Gi")
    return size


def _printed(args: argparse.Namespace, case: Case) -> str:
    if args.manifests:
        from parkade.cli.plan_manifests import manifests_text  # noqa: PLC0415

        return manifests_text(case, args.output)
    if args.output == "json":
        return json.dumps(to_dict(case), indent=2, ensure_ascii=not _is_unicode()) + "\n"
    if args.output == "yaml":
        import yaml  # noqa: PLC0415

        return str(
            yaml.safe_dump(to_dict(case), sort_keys=False, allow_unicode=_is_unicode(), width=100)
        )
    if args.output == "html":
        from parkade.cli.plan_html import to_html  # noqa: PLC0415

        return to_html(case).encode("ascii", "xmlcharrefreplace").decode("ascii")
    from parkade.cli.plan_text import to_text  # noqa: PLC0415

    return to_text(case, color=_is_colored())


def _is_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def _is_colored() -> bool:
    """Whether people look on, and have not asked for plain text (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def to_dict(case: Case) -> dict[str, Any]:
    """Return the decision with the keys of status, and the two conditions that follow from it."""
    return {**case.sizing.to_status(), "conditions": _conditions(case.sizing)}


def _conditions(sizing: Sizing) -> list[dict[str, str]]:
    from parkade.api.conditions import Reason  # noqa: PLC0415

    observed, verdict = sizing.observed, sizing.objectives
    reason = "Observed" if observed is None else observed.reason.value
    if observed is not None and sizing.workload is not None:
        reason = Reason.ASSUMED_LENGTHS.value
    met = {True: "True", False: "False", None: "Unknown"}[verdict.met]
    return [
        {
            "type": "WorkloadObserved",
            "status": "True" if observed is None else "False",
            "reason": reason,
            "message": "" if observed is None else observed.message,
        },
        {
            "type": "ObjectivesMet",
            "status": met,
            "reason": verdict.reason.value,
            "message": verdict.message,
        },
    ]
