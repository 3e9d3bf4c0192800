"""From the inputs to settings with their arithmetic: the entry of sizing.

`recommend` reads as the list of its steps: what the engine is, which fraction leaves the
headroom, what the pool is, what the traffic is, the bounds, the rung, and whether to move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from parkade.api.conditions import Reason
from parkade.api.quantity import gib
from parkade.api.settings import Settings
from parkade.api.status import LimitedBy, TriState, WorkloadBasis
from parkade.sizing.choice import Choice, Evidence, Target, choose, target
from parkade.sizing.engine_bound import engine_bound, user_bound
from parkade.sizing.first_token import (
    Service,
    first_token_bound,
    replicas_needed,
    service,
)
from parkade.sizing.fraction import settle
from parkade.sizing.inputs import Device, MeasuredMemory, SizingInputs
from parkade.sizing.kv_bound import MANY_PREEMPTIONS, KVBound, kv_bound
from parkade.sizing.ladder import snap
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.objectives import judge_objectives
from parkade.sizing.pool import Pool, Setup, misfit, pool_at, pool_sentences, setup
from parkade.sizing.result import (
    Bound,
    BoundKind,
    FootprintUse,
    MemoryMap,
    NotSizable,
    ObjectivesVerdict,
    Sizing,
)
from parkade.sizing.speed_bound import SpeedBound, SpeedCurve, overhead, speed_bound, speed_curve
from parkade.sizing.traffic import assumed_workload, traffic_sentences, workload_status
from parkade.sizing.wording import number, rough
from parkade.sizing.workload import CannotTell, Workload

__all__ = [
    "BASELINE_MAX_NUM_SEQS",
    "Bound",
    "BoundKind",
    "Device",
    "FootprintUse",
    "MeasuredMemory",
    "MemoryMap",
    "NotSizable",
    "ObjectivesVerdict",
    "Sizing",
    "SizingInputs",
    "recommend",
]

BASELINE_MAX_NUM_SEQS = 32
"""Without traffic, initial and assumed lengths: where a 27B model on a B200 was measured to give
100 tok/s to each request. Too low for short chats, too high for books; the traffic tells."""

SATURATED_PERCENT = 1.0
"""More than this share of requests queued for more than 0.3 s: the limit is felt."""


@dataclass(frozen=True, slots=True)
class _Traffic:
    """The lengths to size for, and where they come from."""

    workload: Workload | None
    basis: WorkloadBasis
    observed: CannotTell | None


@dataclass(frozen=True, slots=True)
class _Bounds:
    """All bounds at one pool, with what they rest on."""

    by_kind: dict[BoundKind, Bound]
    kv: KVBound | None
    speed: SpeedBound | None
    first_token: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The arithmetic of the bounds that are known."""
        return (
            *(self.kv.sentences if self.kv else ()),
            *(self.speed.sentences if self.speed else ()),
            *self.first_token,
        )


@dataclass(frozen=True, slots=True)
class _Speeds:
    """What was measured of speed, and the curve through it."""

    points: tuple[SpeedPoint, ...]
    curve: SpeedCurve | None
    service: Service | None


def recommend(inputs: SizingInputs) -> Sizing | NotSizable:
    """Return settings with their arithmetic, or why there are none.

    `Sizing.settings` is what should run after hysteresis. Traffic that can't be told keeps what
    is in force; a new endpoint then starts from `initial`, else `assumed`, else the baseline.
    """
    at = setup(inputs)
    if isinstance(at, NotSizable):
        return at
    wanted = at.fraction_basis().utilization
    if wanted is None:
        return _no_budget(at)
    traffic = _traffic(inputs)
    start = _start(inputs, traffic)
    unfit = _largest_unfit(at, wanted)
    if unfit is not None:
        return unfit
    run = _settled_fraction(at, wanted, start)
    speeds = _speeds(inputs, traffic)
    pool, bounds = _pool_and_bounds(at, run, start, traffic, speeds)
    return _decide(_Case(at, wanted, run, pool, traffic, speeds, bounds))


def _traffic(inputs: SizingInputs) -> _Traffic:
    if isinstance(inputs.workload, Workload):
        return _Traffic(inputs.workload, WorkloadBasis.MEASURED, None)
    assumed = inputs.spec.workload.assumed
    undecided = inputs.in_force is None and inputs.spec.tuning.initial is None
    if assumed is not None and undecided:
        return _Traffic(assumed_workload(assumed), WorkloadBasis.ASSUMED, inputs.workload)
    return _Traffic(None, WorkloadBasis.MEASURED, inputs.workload)


def _start(inputs: SizingInputs, traffic: _Traffic) -> int:
    """Return the max_num_seqs to begin with: in force, initial, or the baseline."""
    if inputs.in_force is not None:
        return inputs.in_force.max_num_seqs
    initial = inputs.spec.tuning.initial
    if initial is not None and traffic.workload is None:
        return initial.max_num_seqs
    return BASELINE_MAX_NUM_SEQS


def _no_budget(at: Setup) -> NotSizable:
    basis = at.fraction_basis()
    return NotSizable(
        Reason.DOES_NOT_FIT,
        f"Nothing is left: {gib(basis.free_bytes)} free - {gib(basis.headroom_bytes)} headroom"
        f" = {gib(basis.free_bytes - basis.headroom_bytes)}. Lower tuning.headroom.",
    )


def _largest_unfit(at: Setup, utilization: Decimal) -> NotSizable | None:
    """Return why not even the least max_num_seqs leaves room for one request."""
    return misfit(pool_at(at, utilization, at.inputs.spec.tuning.max_num_seqs.min))


def _settled_fraction(at: Setup, wanted: Decimal, seqs: int) -> Decimal:
    in_force = at.inputs.in_force
    if in_force is None:
        return _initial_fraction(at, wanted)
    now = in_force.gpu_memory_utilization
    pool = pool_at(at, now, seqs)
    if misfit(pool) is not None:
        return wanted
    gain = 0.0
    if isinstance(at.inputs.workload, Workload):  # with too little data running settings stay
        larger = pool_at(at, wanted, seqs).memory.available_kv_bytes
        gain = 100.0 * (larger / pool.memory.available_kv_bytes - 1)
    spec = at.inputs.spec.tuning
    return settle(
        at.fraction_basis(),
        wanted,
        now,
        pool_gain_percent=gain,
        min_gain_percent=float(spec.min_gain_percent),
    )


def _initial_fraction(at: Setup, wanted: Decimal) -> Decimal:
    """Return the user's initial fraction while there is no evidence, else the computed one."""
    initial = at.inputs.spec.tuning.initial
    if initial is None or isinstance(at.inputs.workload, Workload):
        return wanted
    return initial.settings.gpu_memory_utilization


def _speeds(inputs: SizingInputs, traffic: _Traffic) -> _Speeds:
    workload = traffic.workload
    points = inputs.ledger + (workload.speed if workload else ()) + _window_point(workload)
    objectives = inputs.spec.objectives
    attainment = objectives.attainment_percent if objectives else 90
    curve = speed_curve(points, attainment)
    return _Speeds(points, curve, service(workload, curve) if workload else None)


def _window_point(workload: Workload | None) -> tuple[SpeedPoint, ...]:
    """Return the window itself as a point: its buckets at its mean running requests."""
    if workload is None or workload.time_per_output_token is None or workload.in_flight is None:
        return ()
    times = workload.time_per_output_token
    mean = times.mean
    if not mean or times.total <= 0:
        return ()
    point = SpeedPoint(workload.in_flight.running, (1.0 / mean,))
    return (replace(point, time_per_output_token=times),)


def _pool_and_bounds(
    at: Setup, utilization: Decimal, start: int, traffic: _Traffic, speeds: _Speeds
) -> tuple[Pool, _Bounds]:
    """Return the pool and the bounds at the max_num_seqs that follows from them.

    The pool depends a little on max_num_seqs (sampler, graphs), so the bounds are computed again
    at the rung that they give; twice is enough, and one request must fit.
    """
    seqs = start
    pool = pool_at(at, utilization, seqs)
    bounds = _bounds(at, pool, traffic, speeds)
    for _ in range(2):
        rung = target(bounds.by_kind, at.inputs.spec.tuning.max_num_seqs.min).rung
        if rung == seqs and pool.capacity.fits_one_request:
            break
        seqs = rung
        pool = pool_at(at, utilization, seqs)
        bounds = _bounds(at, pool, traffic, speeds)
    return pool, bounds


def _bounds(at: Setup, pool: Pool, traffic: _Traffic, speeds: _Speeds) -> _Bounds:
    by_kind = {BoundKind.ENGINE: engine_bound(at, pool), BoundKind.USER: user_bound(at)}
    workload = traffic.workload
    if workload is None:
        return _Bounds(by_kind, None, None, ())
    kv = kv_bound(pool, workload)
    by_kind[BoundKind.KV_CACHE] = kv.bound
    speed = _speed(at, speeds)
    if speed is not None:
        by_kind[BoundKind.SPEED] = speed.bound
    pods = workload.pods if traffic.basis is WorkloadBasis.MEASURED else 1
    first, sentences = first_token_bound(workload, speeds.service, pods)
    if first is not None:
        by_kind[BoundKind.FIRST_TOKEN] = first
    return _Bounds(by_kind, kv, speed, sentences)


def _speed(at: Setup, speeds: _Speeds) -> SpeedBound | None:
    objectives = at.inputs.spec.objectives
    wanted = objectives.min_output_tokens_per_second if objectives else None
    if objectives is None or wanted is None or speeds.curve is None:
        return None
    found = speed_bound(speeds.curve, float(wanted), float(objectives.attainment_percent))
    in_force = at.inputs.in_force
    if found.open_ended and in_force is not None and found.bound.value is not None:
        floor = max(found.bound.value, float(in_force.max_num_seqs))
        return replace(found, bound=replace(found.bound, value=floor))
    return found


@dataclass(frozen=True, slots=True)
class _Case:
    """Everything that the decision is made from."""

    at: Setup
    wanted_fraction: Decimal
    run_fraction: Decimal
    pool: Pool
    traffic: _Traffic
    speeds: _Speeds
    bounds: _Bounds

    @property
    def inputs(self) -> SizingInputs:
        """The inputs of the whole."""
        return self.at.inputs

    @property
    def in_force(self) -> int | None:
        """The max_num_seqs in force."""
        return self.inputs.in_force.max_num_seqs if self.inputs.in_force else None


def _decide(case: _Case) -> Sizing:
    alarm = overhead(case.speeds.points)
    saturated = _saturated(case.traffic.workload)
    if case.traffic.workload is None:
        wanted, choice = _without_traffic(case)
        limited_by: LimitedBy | None = None
    else:
        wanted = _relieved(case, target(case.bounds.by_kind, _floor(case)))
        choice = choose(
            wanted, case.in_force, case.bounds.by_kind, _floor(case), _evidence(case, saturated)
        )
        limited_by = wanted.limited_by
    verdict, replicas = _objectives(case, choice.rung)
    pool = pool_at(case.at, case.run_fraction, choice.rung)
    workload = case.traffic.workload
    return Sizing(
        settings=Settings(choice.rung, case.run_fraction),
        target=Settings(wanted.rung, case.wanted_fraction),
        unsnapped=wanted.unsnapped,
        limited_by=limited_by,
        bounds=case.bounds.by_kind,
        saturated=saturated,
        objectives=verdict,
        memory=pool.memory,
        workload=workload_status(workload, case.traffic.basis, case.bounds.kv)
        if workload
        else None,
        footprint=case.bounds.kv.footprint if case.bounds.kv else None,
        observed=case.traffic.observed,
        held=choice.held,
        held_message=choice.message if choice.held else "",
        needs_replicas=replicas,
        overhead_bound=alarm is not None,
        explanation=_explanation(case, wanted, choice, alarm),
        warnings=case.at.layout.warnings,
    )


def _floor(case: _Case) -> int:
    return case.inputs.spec.tuning.max_num_seqs.min


def _saturated(workload: Workload | None) -> TriState:
    if workload is None or workload.queued_percent is None:
        return TriState.UNKNOWN
    return TriState.TRUE if workload.queued_percent > SATURATED_PERCENT else TriState.FALSE


def _evidence(case: _Case, saturated: TriState) -> Evidence:
    kv, speed = case.bounds.kv, case.bounds.speed
    by_speed = _kind(case) is BoundKind.SPEED
    error = speed.standard_error_percent if by_speed and speed else 0.0
    if _kind(case) is BoundKind.KV_CACHE and kv is not None:
        error = kv.standard_error_percent
    return Evidence(
        min_gain_percent=float(case.inputs.spec.tuning.min_gain_percent),
        standard_error_percent=error,
        saturated=saturated,
        overhead=overhead(case.speeds.points),
        speed_open_ended=bool(speed and speed.open_ended),
    )


def _kind(case: _Case) -> BoundKind:
    return target(case.bounds.by_kind, _floor(case)).kind


def _relieved(case: _Case, wanted: Target) -> Target:
    """Go one rung below what is in force where many preemptions make an objective missed."""
    workload, in_force = case.traffic.workload, case.in_force
    if workload is None or workload.in_flight is None or in_force is None:
        return wanted
    preempted = workload.in_flight.preemptions / max(1.0, workload.requests)
    verdict, _ = _objectives(case, in_force)
    if preempted < MANY_PREEMPTIONS or verdict.met is not False or wanted.rung < in_force:
        return wanted
    rung = max(_floor(case), snap(in_force - 1, in_force - 1))
    sentence = (
        f"Preemptions: {number(workload.in_flight.preemptions, 1)} / "
        f"{number(workload.requests, 1)} requests = {number(preempted)} for each, and an objective "
        f"is missed, so the rung below {in_force} is tried: {rung}."
    )
    return replace(
        wanted,
        unsnapped=min(wanted.unsnapped, float(rung)),
        kind=BoundKind.KV_CACHE,
        rung=rung,
        sentences=(*wanted.sentences, sentence),
    )


def _without_traffic(case: _Case) -> tuple[Target, Choice]:
    """Return what runs while the traffic can't be told: what is in force, if allowed."""
    hard = target(
        {kind: case.bounds.by_kind[kind] for kind in (BoundKind.ENGINE, BoundKind.USER)},
        _floor(case),
    )
    start = _start(case.inputs, case.traffic)
    rung = int(max(_floor(case), min(start, hard.ceiling)))
    observed = case.traffic.observed
    why = observed.message if observed else "Nothing is known of the traffic."
    source = (
        "in force"
        if case.in_force is not None
        else "tuning.initial"
        if case.inputs.spec.tuning.initial
        else "the baseline"
    )
    message = f"{why} max_num_seqs stays {rung} ({source})."
    wanted = replace(hard, unsnapped=float(rung), rung=rung, sentences=())
    return wanted, Choice(rung, Reason.INSUFFICIENT_EVIDENCE, message)


def _objectives(case: _Case, rung: int) -> tuple[ObjectivesVerdict, int | None]:
    """Return the verdict, and the pods that would be needed where these cannot keep up."""
    inputs, workload = case.inputs, case.traffic.workload
    measured = workload if case.traffic.basis is WorkloadBasis.MEASURED else None
    verdict = judge_objectives(
        inputs.spec.objectives, measured, case.speeds.curve, case.speeds.points, float(rung)
    )
    first = case.bounds.by_kind.get(BoundKind.FIRST_TOKEN)
    if inputs.spec.objectives is None or workload is None or first is None or first.value is None:
        return verdict, None
    upper = target(case.bounds.by_kind, _floor(case)).unsnapped
    if first.value <= upper:
        return verdict, None
    needed = replicas_needed(workload, case.speeds.service, upper)
    message = (
        f"At least {rough(first.value)} requests at a time are needed at the peak and at most "
        f"{rough(upper)} may run on each pod: {needed} pods would keep up. {verdict.message}"
    )
    verdict = ObjectivesVerdict(met=False, reason=Reason.NEEDS_REPLICAS, message=message)
    return verdict, needed


def _explanation(case: _Case, wanted: Target, choice: Choice, alarm: str | None) -> tuple[str, ...]:
    workload = case.traffic.workload
    traffic = traffic_sentences(workload, case.traffic.basis) if workload else ()
    return (
        case.at.fraction_basis().sentence(case.wanted_fraction),
        *_fraction_held(case),
        *pool_sentences(case.pool),
        *traffic,
        *case.bounds.sentences,
        *wanted.sentences,
        *((choice.message,) if choice.message else ()),
        *((alarm,) if alarm and choice.message != alarm else ()),
    )


def _fraction_held(case: _Case) -> tuple[str, ...]:
    if case.run_fraction == case.wanted_fraction:
        return ()
    basis = case.at.fraction_basis()
    left = basis.left_bytes(case.run_fraction)
    return (
        (
            f"Fraction in force: {case.run_fraction} stays; it leaves {gib(left)} free, and "
            f"{case.wanted_fraction} would gain less pool than minGainPercent "
            f"{case.inputs.spec.tuning.min_gain_percent} %."
        ),
    )
