"""The decision as a whole: outcomes for good, bad and missing evidence, and its invariants."""

from decimal import Decimal

import pytest
import sizing_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st

from parkade.api.conditions import Reason
from parkade.api.quantity import GIB
from parkade.api.settings import Settings
from parkade.api.status import (
    FootprintBasis,
    LimitedBy,
    Memory,
    MemoryBasis,
    Recommendation,
    TriState,
    Workload,
    WorkloadBasis,
)
from parkade.sizing.cards import device
from parkade.sizing.decision import BASELINE_MAX_NUM_SEQS
from parkade.sizing.histograms import read_histogram
from parkade.sizing.inputs import SizingInputs
from parkade.sizing.ladder import RUNGS
from parkade.sizing.ledger import PointSource
from parkade.sizing.recommend import NotSizable, Sizing, recommend
from parkade.sizing.result import BoundKind

SHORT = {"prompts": (500,) * 600, "outputs": (100,) * 600}


def running(seqs: int, fraction: str = "0.9521") -> Settings:
    return Settings(seqs, Decimal(fraction))


def token_times(fast: int, all_: int = 1000):
    return read_histogram({"0.01": fast, "0.025": all_, "0.05": all_}, all_, 0.012 * all_)


class TestWithoutTraffic:
    @pytest.mark.parametrize(
        ("spec", "in_force", "seqs", "words"),
        [
            pytest.param({}, running(96), 96, "in force", id="what is in force stays"),
            pytest.param(
                {"initial": {"maxNumSeqs": 48, "gpuMemoryUtilization": "0.85"}},
                None,
                48,
                "tuning.initial",
                id="a new endpoint starts from initial",
            ),
            pytest.param({}, None, BASELINE_MAX_NUM_SEQS, "baseline", id="else from the baseline"),
            pytest.param(
                {"maxNumSeqs": {"min": 1, "max": 64}},
                running(96),
                64,
                "in force",
                id="cut to what the user allows",
            ),
        ],
    )
    def test_settings(self, spec, in_force, seqs, words):
        spec = cases.endpoint(tuning={"initial": None, **spec})
        sizing = cases.sized(spec, work=cases.NOTHING, in_force=in_force)
        assert sizing.settings.max_num_seqs == seqs
        assert sizing.held is Reason.INSUFFICIENT_EVIDENCE
        assert words in sizing.held_message
        assert sizing.observed is cases.NOTHING
        assert sizing.limited_by is None

    def test_the_initial_fraction_holds_while_there_is_no_evidence(self):
        initial = {"maxNumSeqs": 48, "gpuMemoryUtilization": "0.85"}
        sizing = cases.sized(cases.endpoint(tuning={"initial": initial}), work=cases.NOTHING)
        assert sizing.settings.gpu_memory_utilization == Decimal("0.85")

    def test_assumed_lengths_size_a_new_endpoint(self):
        spec = cases.endpoint(
            tuning={"initial": None},
            workload={"assumed": {"promptTokens": 100_000, "outputTokens": 500}},
        )
        sizing = cases.sized(spec, work=cases.NOTHING)
        assert sizing.limited_by is LimitedBy.KV_CACHE
        assert sizing.workload.basis is WorkloadBasis.ASSUMED
        assert sizing.observed is cases.NOTHING

    def test_a_fraction_in_force_that_leaves_too_little_is_lowered_all_the_same(self):
        sizing = cases.sized(work=cases.NOTHING, in_force=running(32, "0.9800"))
        assert sizing.settings.gpu_memory_utilization == Decimal("0.9521")


class TestSaturation:
    @pytest.mark.parametrize(
        ("queued", "seqs", "held", "saturated"),
        [
            pytest.param(0.5, 8, Reason.UNSATURATED, TriState.FALSE, id="nobody queues: no raise"),
            pytest.param(1.0, 8, Reason.UNSATURATED, TriState.FALSE, id="one percent is nobody"),
            pytest.param(1.5, None, None, TriState.TRUE, id="queues: raise"),
            pytest.param(None, None, None, TriState.UNKNOWN, id="not known: the bounds decide"),
        ],
    )
    def test_raises(self, queued, seqs, held, saturated):
        work = cases.workload(**SHORT, queued_percent=queued)
        sizing = cases.sized(work=work, in_force=running(8))
        assert sizing.saturated is saturated
        assert sizing.held is held
        assert sizing.settings.max_num_seqs == (seqs or sizing.target.max_num_seqs)

    def test_a_missed_objective_lowers_even_where_nobody_queues(self):
        work = cases.workload(**SHORT, queued_percent=0.0, speed=cases.ladder())
        sizing = cases.sized(cases.endpoint(), work=work, in_force=running(256))
        assert sizing.settings.max_num_seqs == 40
        assert sizing.held is None


class TestHysteresis:
    def bound(self, in_force, gain=10, seqs=100.0):
        flight = cases.in_flight(running=seqs, kv_usage=1.0, pool_tokens=4_300_000.0)
        spec = cases.endpoint(tuning={"initial": None, "minGainPercent": gain})
        return cases.sized(
            spec,
            work=cases.workload(in_flight=flight, queued_percent=5.0),
            in_force=running(in_force),
        )

    @pytest.mark.parametrize(
        ("in_force", "gain", "runs", "held"),
        [
            pytest.param(96, 10, 96, None, id="the rung for the bound stays"),
            pytest.param(80, 50, 80, Reason.WITHIN_HYSTERESIS, id="a raise below the gain waits"),
            pytest.param(80, 10, 96, None, id="a raise beyond the gain goes"),
            pytest.param(112, 15, 112, Reason.WITHIN_HYSTERESIS, id="a cut below the gain waits"),
            pytest.param(160, 10, 96, None, id="a cut beyond the gain goes"),
        ],
    )
    def test_moves_only_for_enough(self, in_force, gain, runs, held):
        sizing = self.bound(in_force, gain)
        assert 95 < sizing.unsnapped < 104
        assert sizing.settings.max_num_seqs == runs
        assert sizing.held is held

    def test_the_recommendation_settles(self):
        first = self.bound(8)
        again = self.bound(first.settings.max_num_seqs)
        assert again.settings.max_num_seqs == first.settings.max_num_seqs


class TestSpeedEvidence:
    def test_a_quiet_night_lowers_nothing(self):
        work = cases.workload(
            **SHORT,
            queued_percent=0.0,
            in_flight=cases.in_flight(running=2.0, kv_usage=0.001, scrapes=500),
            time_per_output_token=token_times(1000),
        )
        sizing = cases.sized(cases.endpoint(), work=work, in_force=running(256))
        assert sizing.settings.max_num_seqs == 256
        assert sizing.objectives.met is True

    def test_slow_peaks_of_a_quiet_endpoint_lower_by_half_at_a_time(self):
        work = cases.workload(
            **SHORT,
            queued_percent=0.0,
            in_flight=cases.in_flight(running=3.1, kv_usage=0.001, scrapes=500),
            time_per_output_token=token_times(800),
        )
        sizing = cases.sized(cases.endpoint(), work=work, in_force=running(256))
        assert sizing.objectives.met is False
        assert sizing.settings.max_num_seqs == 128
        again = cases.sized(cases.endpoint(), work=work, in_force=running(6))
        assert again.settings.max_num_seqs < 6

    def test_a_raise_stops_at_twice_the_highest_measured(self):
        points = tuple(
            cases.point(seqs, speed, source=PointSource.LEDGER)
            for seqs, speed in ((8, 250), (16, 200))
        )
        work = cases.workload(**SHORT, queued_percent=9.0)
        sizing = cases.sized(cases.endpoint(), work=work, ledger=points, in_force=running(16))
        assert sizing.settings.max_num_seqs == 32
        assert sizing.limited_by is LimitedBy.SPEED

    def test_a_share_of_requests_decides_where_buckets_are_known(self):
        slow = cases.point(
            64, 101.0, source=PointSource.LEDGER, time_per_output_token=token_times(700)
        )
        fast = cases.point(
            16, 220.0, source=PointSource.LEDGER, time_per_output_token=token_times(990)
        )
        sizing = cases.sized(
            cases.endpoint(),
            work=cases.workload(**SHORT),
            ledger=(fast, slow),
            in_force=running(64),
        )
        assert sizing.limited_by is LimitedBy.SPEED
        assert 16 <= sizing.unsnapped < 64
        assert "90 % of requests" in sizing.bounds[BoundKind.SPEED].why

    def test_overhead_is_named_and_stops_raises(self):
        points = (cases.point(16, 50.0), cases.point(32, 50.2), cases.point(64, 49.9))
        spec = cases.endpoint(objectives={"minOutputTokensPerSecond": 10})
        work = cases.workload(**SHORT, queued_percent=50.0, speed=points)
        sizing = cases.sized(spec, work=work, in_force=running(64))
        assert sizing.overhead_bound
        assert sizing.held is Reason.OVERHEAD_BOUND
        assert sizing.settings.max_num_seqs == 64


class TestObjectives:
    @pytest.mark.parametrize(
        ("measured", "met", "reason"),
        [
            pytest.param(
                {
                    "in_flight": cases.in_flight(running=3.1, kv_usage=0.001, scrapes=500),
                    "time_per_output_token": token_times(800),
                },
                False,
                Reason.MISSED,
                id="a fifth of the requests were slow",
            ),
            pytest.param({}, None, Reason.CANNOT_TELL, id="no speed was measured"),
        ],
    )
    def test_what_was_measured_is_judged(self, measured, met, reason):
        spec = cases.endpoint(
            objectives={"minOutputTokensPerSecond": 100, "maxTimeToFirstTokenSeconds": None}
        )
        work = cases.workload(**SHORT, queued_percent=0.0, **measured)
        sizing = cases.sized(spec, work=work, in_force=running(256))
        assert (sizing.objectives.met, sizing.objectives.reason) == (met, reason)

    @pytest.mark.parametrize(
        ("first_token", "met", "reason"),
        [
            pytest.param(10, False, Reason.NEEDS_REPLICAS, id="a queue delays the first token"),
            pytest.param(None, True, Reason.MET, id="a queue breaks no other wish"),
        ],
    )
    def test_too_few_pods_are_said_with_the_number(self, first_token, met, reason):
        work = cases.workload(
            prompts=(8000,) * 600,
            outputs=(550,) * 600,
            speed=cases.ladder(),
            peak_requests_per_second=40.0,
        )
        spec = cases.endpoint(objectives={"maxTimeToFirstTokenSeconds": first_token})
        sizing = cases.sized(spec, work=work, in_force=running(40))
        assert (sizing.objectives.met, sizing.objectives.reason) == (met, reason)
        assert sizing.needs_replicas > 1
        said = f"{sizing.needs_replicas} pods would keep up"
        assert any(said in one for one in sizing.explanation)
        assert (said in sizing.objectives.message) is (not met)

    def test_between_two_bounds_most_requests_meet_both(self):
        points = tuple(
            cases.point(
                seqs, speed, source=PointSource.LEDGER, time_per_output_token=token_times(n)
            )
            for seqs, speed, n in ((16, 200, 1000), (64, 105, 850), (128, 102, 800), (256, 50, 0))
        )
        spec = cases.endpoint(
            objectives={"minOutputTokensPerSecond": 100, "maxTimeToFirstTokenSeconds": 10}
        )
        work = cases.workload(outputs=(1000,) * 600, peak_requests_per_second=10.0)
        sizing = cases.sized(spec, work=work, ledger=points)
        assert sizing.objectives.reason is Reason.NEEDS_REPLICAS
        assert sizing.bounds[BoundKind.SPEED].value < sizing.settings.max_num_seqs
        assert any(one.startswith("Both objectives") for one in sizing.explanation)


class TestMemory:
    def test_after_a_run_the_engines_own_figures_count(self):
        sizing = cases.sized(measured=cases.measured(non_kv_bytes=30 * GIB))
        assert sizing.memory.basis is MemoryBasis.MEASURED
        assert sizing.memory.uncertainty_bytes == 0

    @pytest.mark.parametrize(
        ("actual", "higher"),
        [
            pytest.param(3 * GIB, False, id="graphs above the estimate eat headroom"),
            pytest.param(0, True, id="graphs below the estimate give room"),
        ],
    )
    def test_the_error_of_the_graph_estimate_is_corrected_for(self, actual, higher):
        exact = cases.sized(measured=cases.measured()).settings.gpu_memory_utilization
        other = cases.sized(measured=cases.measured(graph_bytes_actual=actual))
        assert (other.settings.gpu_memory_utilization > exact) is higher

    def test_an_estimate_that_was_far_too_high_never_breaks_the_start_check(self):
        far = cases.measured(graph_bytes_estimated=24 * GIB, graph_bytes_actual=GIB)
        sizing = cases.sized(measured=far)
        assert sizing.memory.requested_bytes <= far.free_bytes

    def test_learned_headroom_is_more_than_what_is_asked_for(self):
        sizing = cases.sized(effective_headroom_bytes=8 * GIB)
        assert sizing.memory.left_bytes >= 8 * GIB

    def test_a_limit_learned_from_failures_is_an_engine_bound(self):
        sizing = cases.sized(work=cases.workload(**SHORT), max_num_seqs_cap=12)
        assert sizing.limited_by is LimitedBy.ENGINE
        assert sizing.settings.max_num_seqs == 12


NOT_SIZABLE = [
    pytest.param(
        {"spec": cases.endpoint(tuning={"headroom": "170Gi"})},
        Reason.DOES_NOT_FIT,
        "tuning.headroom of at most",
        id="a headroom that leaves too little for one request names the one that would",
    ),
    pytest.param(
        {"spec": cases.endpoint(tuning={"headroom": "177Gi"})},
        Reason.DOES_NOT_FIT,
        "lower tuning.headroom",
        id="a headroom larger than the card",
    ),
    pytest.param(
        {"weights": 140 * GIB},
        Reason.DOES_NOT_FIT,
        "model.maxModelLen of at most",
        id="weights that leave too little name the length that fits",
    ),
    pytest.param(
        {"weights": 400 * GIB}, Reason.DOES_NOT_FIT, "a larger card", id="weights beyond the card"
    ),
    pytest.param(
        {"weights": None}, Reason.MODEL_UNAVAILABLE, "model.weightsSize", id="weights not known"
    ),
    pytest.param(
        {"arch": "dense", "spec": cases.endpoint()},
        Reason.INVALID_SPEC,
        "no MTP layers",
        id="a drafter that the model does not have",
    ),
    pytest.param(
        {
            "spec": cases.endpoint(
                engine={"env": [{"name": "VLLM_ENABLE_STARTUP_PLAN", "value": "1"}]}
            )
        },
        Reason.INVALID_SPEC,
        "stored hint",
        id="the engine's stored hint",
    ),
    pytest.param(
        {"spec": cases.endpoint(engine={"extraArgs": ["--max-num-batched-tokens", "many"]})},
        Reason.BAD_ARGUMENTS,
        "--max-num-batched-tokens 'many'",
        id="an argument that is no number",
    ),
]


@pytest.mark.parametrize(("case", "reason", "words"), NOT_SIZABLE)
def test_what_cannot_be_sized_says_what_would(case, reason, words):
    result = recommend(cases.inputs(**case))
    assert isinstance(result, NotSizable), result
    assert result.reason is reason
    assert words in result.message
    assert "\n" not in result.message


def test_the_headroom_and_the_length_that_are_named_do_fit():
    unfit = recommend(cases.inputs(weights=140 * GIB))
    assert isinstance(unfit, NotSizable)
    shorter = cases.endpoint(model={"maxModelLen": unfit.max_model_len})
    assert isinstance(recommend(cases.inputs(shorter, weights=140 * GIB)), Sizing)
    longer = cases.endpoint(model={"maxModelLen": unfit.max_model_len + 2000})
    assert isinstance(recommend(cases.inputs(longer, weights=140 * GIB)), NotSizable)
    tight = recommend(cases.inputs(cases.endpoint(tuning={"headroom": "130Gi"})))
    assert isinstance(tight, NotSizable)
    text = f"{tight.headroom_bytes // 2**20}Mi"
    assert isinstance(recommend(cases.inputs(cases.endpoint(tuning={"headroom": text}))), Sizing)


def test_where_only_no_headroom_fits_the_remedies_are_ones_to_follow():
    """Both are needed: the headroom first, then the length."""
    card = {"product": "NVIDIA-L4", "memory": "22600Mi"}

    def ask(headroom, **model):
        spec = cases.endpoint(accelerator=card, tuning={"headroom": headroom}, model=model)
        on = device(spec.spec.accelerator)
        return recommend(cases.inputs(spec, device=on, weights=15 * GIB))

    told = ask("21Gi")
    assert "With tuning.headroom 0:" in told.message
    again = ask("21Gi", maxModelLen=told.max_model_len)
    assert again.headroom_bytes >= 0
    assert "at most -" not in again.message
    assert isinstance(ask("0", maxModelLen=told.max_model_len), Sizing)


def test_a_measured_footprint_wins_from_a_hundred_scrapes_on():
    few, enough = (
        cases.sized(work=cases.workload(in_flight=cases.in_flight(scrapes=scrapes)))
        for scrapes in (99, 100)
    )
    assert few.footprint.basis is FootprintBasis.COMPUTED
    assert enough.footprint.basis is FootprintBasis.MEASURED
    assert enough.footprint.tokens == pytest.approx(0.24 * 2_100_000 / 3.1)


def test_status_has_the_documented_keys_and_parses_back():
    status = cases.sized(work=cases.workload(in_flight=cases.in_flight())).to_status()
    assert set(status) == {"recommendation", "memory", "workload"}
    assert set(status["recommendation"]["bounds"]) == {"kvCache", "engine", "user"}
    Recommendation.model_validate(status["recommendation"])
    Memory.model_validate(status["memory"])
    Workload.model_validate(status["workload"])
    assert "availableKV" in status["memory"]


@given(
    prompts=st.lists(st.integers(1, 900_000), min_size=1, max_size=40),
    outputs=st.lists(st.integers(1, 60_000), min_size=1, max_size=40),
    queued=st.one_of(st.none(), st.floats(0, 100)),
    cached=st.floats(0, 1),
    in_force=st.one_of(st.none(), st.sampled_from(RUNGS)),
    wanted=st.one_of(st.none(), st.integers(1, 2000)),
)
@settings(max_examples=150, deadline=None)
def test_any_traffic_gives_a_rung_within_the_bounds(
    prompts, outputs, queued, cached, in_force, wanted
):
    work = cases.workload(
        prompts,
        (outputs * len(prompts))[: len(prompts)],
        queued_percent=queued,
        prefix_cached_tokens=cached * sum(prompts),
        speed=cases.ladder(),
    )
    spec = cases.endpoint(
        objectives=None if wanted is None else {"minOutputTokensPerSecond": wanted}
    )
    force = None if in_force is None else running(in_force)
    sizing = cases.sized(spec, work=work, in_force=force)
    assert 1 <= sizing.settings.max_num_seqs <= 1024
    assert sizing.unsnapped > 0
    assert sizing.settings.max_num_seqs in RUNGS
    for bound in sizing.bounds.values():
        assert bound.value is not None
        assert bound.value > 0
    assert "nan" not in str(sizing.to_status()).lower()
    if force is None and BoundKind.SPEED in sizing.bounds:
        assert sizing.settings.max_num_seqs <= max(1, sizing.bounds[BoundKind.SPEED].value)


@given(less=st.integers(0, 120), more=st.integers(0, 120))
@settings(max_examples=60, deadline=None)
def test_more_headroom_never_gives_a_larger_fraction_or_pool(less, more):
    less, more = sorted((less, more))

    def size(headroom: int) -> Sizing | NotSizable:
        return recommend(
            cases.inputs(cases.endpoint(tuning={"headroom": f"{headroom}Gi", "initial": None}))
        )

    small, large = size(less), size(more)
    if isinstance(small, Sizing) and isinstance(large, Sizing):
        assert large.settings.gpu_memory_utilization <= small.settings.gpu_memory_utilization
        assert large.memory.num_blocks <= small.memory.num_blocks
        assert large.unsnapped <= small.unsnapped * (1 + 1e-9)
    else:
        assert isinstance(large, NotSizable)


@given(
    st.builds(
        cases.measured,
        total_bytes=st.integers(1, 300 * GIB),
        free_bytes=st.integers(1, 300 * GIB),
        utilization=st.floats(0.01, 1.0),
        max_num_seqs=st.integers(1, 1024),
        non_kv_bytes=st.integers(0, 300 * GIB),
        available_kv_bytes=st.integers(1, 300 * GIB),
        graph_bytes_estimated=st.integers(-GIB, 40 * GIB),
        graph_bytes_actual=st.one_of(st.none(), st.integers(-GIB, 40 * GIB)),
        weights_bytes=st.one_of(st.none(), st.integers(0, 300 * GIB)),
        peak_activation_bytes=st.one_of(st.none(), st.integers(0, 300 * GIB)),
    )
)
@settings(max_examples=100, deadline=None)
def test_any_measured_memory_gives_an_answer_that_starts(memory):
    result = recommend(cases.inputs(measured=memory))
    if isinstance(result, NotSizable):
        assert result.message
        return
    assert result.memory.requested_bytes <= memory.free_bytes
    assert result.memory.available_kv_bytes > 0
    assert result.settings.max_num_seqs in RUNGS


def test_equal_inputs_give_equal_answers():
    made: list[SizingInputs] = [cases.inputs(work=cases.workload(speed=cases.ladder()))] * 2
    assert recommend(made[0]) == recommend(made[1])
