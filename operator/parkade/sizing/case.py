"""What a decision is made from: the traffic, the speeds, and all bounds at one pool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from parkade.api.status import TriState, WorkloadBasis
from parkade.sizing.engine_bound import engine_bound, user_bound
from parkade.sizing.first_token import Service, first_token_bound, service
from parkade.sizing.histograms import quantile_inside
from parkade.sizing.inputs import SizingInputs
from parkade.sizing.kv_bound import KVBound, kv_bound
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.pool import Pool, Setup
from parkade.sizing.result import Bound, BoundKind
from parkade.sizing.speed_bound import SpeedBound, speed_bound
from parkade.sizing.speed_curve import SpeedCurve, speed_curve
from parkade.sizing.traffic import assumed_workload
from parkade.sizing.wording import rough
from parkade.sizing.workload import CannotTell, Workload

SATURATED_PERCENT = 1.0
"""More than this share of requests queued for more than 0.3 s: the limit is felt."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The lengths to size for, and where they come from."""

    workload: Workload | None
    basis: WorkloadBasis
    observed: CannotTell | None


@dataclass(frozen=True, slots=True)
class Bounds:
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
class Speeds:
    """What was measured of speed, and the curve through it."""

    points: tuple[SpeedPoint, ...]
    curve: SpeedCurve | None
    service: Service | None
    window_mean: bool = False
    """Nothing but the window of the whole endpoint: its mean hides the peaks."""


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that the decision is made from."""

    at: Setup
    wanted_fraction: Decimal
    run_fraction: Decimal
    pool: Pool
    traffic: Traffic
    speeds: Speeds
    bounds: Bounds

    @property
    def inputs(self) -> SizingInputs:
        """The inputs of the whole."""
        return self.at.inputs

    @property
    def in_force(self) -> int | None:
        """The max_num_seqs in force."""
        return self.inputs.in_force.max_num_seqs if self.inputs.in_force else None

    @property
    def floor(self) -> int:
        """The least max_num_seqs: the user's, where the engine takes it."""
        most = self.bounds.by_kind[BoundKind.ENGINE].value or 1.0
        return max(1, min(self.inputs.spec.tuning.max_num_seqs.min, int(most)))


def traffic_of(inputs: SizingInputs) -> Traffic:
    """Return the traffic to size for: measured, else assumed for a new endpoint, else none."""
    if isinstance(inputs.workload, Workload):
        return Traffic(inputs.workload, WorkloadBasis.MEASURED, None)
    assumed = inputs.spec.workload.assumed
    undecided = inputs.in_force is None and inputs.spec.tuning.initial is None
    if assumed is not None and undecided:
        return Traffic(assumed_workload(assumed), WorkloadBasis.ASSUMED, inputs.workload)
    return Traffic(None, WorkloadBasis.MEASURED, inputs.workload)


def speeds_of(inputs: SizingInputs, traffic: Traffic) -> Speeds:
    """Return the points of the ledger and of the traffic; without any, the window itself.

    The window of an endpoint mixes pods of all settings that ran in it, so it stands for none of
    them where pods were measured one by one.
    """
    workload = traffic.workload
    measured = inputs.ledger + (workload.speed if workload else ())
    points = measured or _window_point(workload)
    objectives = inputs.spec.objectives
    attainment = objectives.attainment_percent if objectives else 90
    curve = speed_curve(points, attainment)
    serving = service(workload, curve) if workload else None
    return Speeds(points, curve, serving, window_mean=not measured)


def _window_point(workload: Workload | None) -> tuple[SpeedPoint, ...]:
    """Return the window itself as a point: its buckets at its mean running requests."""
    if workload is None or workload.time_per_output_token is None or workload.in_flight is None:
        return ()
    times = workload.time_per_output_token
    if times.total <= 0:
        return ()
    seconds = quantile_inside(times, 0.5)
    point = SpeedPoint(workload.in_flight.running, (1.0 / seconds,))
    return (replace(point, time_per_output_token=times),)


def bounds_at(at: Setup, pool: Pool, traffic: Traffic, speeds: Speeds) -> Bounds:
    """Return all bounds on max_num_seqs at a pool. Without traffic only the hard ones are known."""
    by_kind = {BoundKind.ENGINE: engine_bound(at, pool), BoundKind.USER: user_bound(at)}
    workload = traffic.workload
    if workload is None:
        return Bounds(by_kind, None, None, ())
    kv = kv_bound(pool, workload, traffic.basis)
    by_kind[BoundKind.KV_CACHE] = kv.bound
    speed = _speed(at.inputs, speeds)
    if speed is not None:
        by_kind[BoundKind.SPEED] = speed.bound
    pods = workload.pods if traffic.basis is WorkloadBasis.MEASURED else 1
    first, sentences = first_token_bound(workload, speeds.service, pods)
    if first is not None:
        by_kind[BoundKind.FIRST_TOKEN] = first
    return Bounds(by_kind, kv, speed, sentences)


def _speed(inputs: SizingInputs, speeds: Speeds) -> SpeedBound | None:
    """Return the speed bound; None where nothing was asked for or nothing limits.

    Where every point holds, the bound limits raises alone: what is in force stays allowed, and
    with nothing in force only a ladder that was climbed on purpose limits.
    """
    objectives, curve = inputs.spec.objectives, speeds.curve
    wanted = objectives.min_output_tokens_per_second if objectives else None
    if objectives is None or wanted is None or curve is None:
        return None
    found = speed_bound(curve, float(wanted), float(objectives.attainment_percent))
    value = found.bound.value
    if value is None:
        return found
    if inputs.in_force is None:
        return found if curve.benchmark or not found.open_ended else None
    seqs = inputs.in_force.max_num_seqs
    if not found.open_ended:
        return _halved(found, value, curve.highest, seqs) if speeds.window_mean else found
    if seqs <= value:
        return found
    sentence = f"Want of points lowers nothing: {seqs} in force stays allowed."
    return replace(
        found,
        bound=replace(found.bound, value=float(seqs), why=f"{found.bound.why} {sentence}"),
        sentences=(*found.sentences, sentence),
    )


def _halved(found: SpeedBound, value: float, highest: float, seqs: int) -> SpeedBound:
    """Go down by half at a time where far fewer ran on average than were allowed.

    Then the slow requests ran in peaks that the mean does not show: in proportion to it the bound
    would fall to what a quiet hour needs. With the lower limit the peaks are cut and measured.
    """
    half = seqs / 2
    if highest >= half or value >= half:
        return found
    sentence = (
        f"One step down: {seqs} in force / 2 = {rough(half)} requests, since {rough(highest)} ran "
        "on average and the slow ones ran in peaks."
    )
    bound = replace(
        found.bound, value=half, why=f"{found.bound.why} Lowered by half of {seqs} at a time."
    )
    return replace(found, bound=bound, sentences=(*found.sentences, sentence))


def saturation(workload: Workload | None) -> TriState:
    """Return whether requests queue for want of slots."""
    if workload is None or workload.queued_percent is None:
        return TriState.UNKNOWN
    return TriState.TRUE if workload.queued_percent > SATURATED_PERCENT else TriState.FALSE
