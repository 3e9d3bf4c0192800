"""Decisions that follow one another: they reach the right rung and stay there.

An engine with linear time per token under a load that keeps every slot busy is sized again and
again. Each reading holds the whole window, with the pods of earlier settings in it; the ledger is
kept as the controller keeps it.
"""

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import sizing_cases as cases

from parkade.api.settings import Settings
from parkade.sizing.histograms import Histogram, read_histogram
from parkade.sizing.ladder import RUNGS, snap
from parkade.sizing.ledger import SpeedPoint
from parkade.sizing.points import Points, matters, merge_points, stamp
from testbed.engine import simulate

EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0)
"""Of vLLM's histogram of time per output token, seconds."""
SLOTS = 4
"""Looks at each window."""
WINDOW = timedelta(hours=4)
START = datetime(2026, 1, 1, tzinfo=UTC)
FRACTION = Decimal("0.9521")


def seconds_per_token(running: float) -> float:
    return (3.0 + 0.25 * running) / 1000


def right_rung(wanted: float) -> int:
    bound = max(1.0, (1000 / wanted - 3.0) / 0.25)
    return max(1, snap(bound, bound))


@dataclass
class Pod:
    """A pod that serves at its limit; a list of times per request for each slot it ran."""

    name: str
    seqs: int
    slots: dict[int, list[float]] = field(default_factory=dict)

    def serve(self, slot: int, generator: random.Random, noise: float) -> None:
        base = seconds_per_token(self.seqs) * max(0.5, generator.gauss(1, noise))
        self.slots[slot] = [base * generator.gauss(1, 0.02) for _ in range(100)]

    def times(self, slot: int) -> list[float]:
        """Of the window that ends with a slot."""
        return [one for at, ran in self.slots.items() if slot - SLOTS < at <= slot for one in ran]


def histogram(times: list[float]) -> Histogram:
    pairs = [(edge, float(sum(one <= edge for one in times))) for edge in EDGES]
    read = read_histogram(pairs, float(len(times)), sum(times))
    assert isinstance(read, Histogram), read
    return read


def point(pod: Pod, slot: int) -> SpeedPoint | None:
    times = pod.times(slot)
    if not times:
        return None
    found = histogram(times)
    return SpeedPoint(
        float(pod.seqs),
        (1 / (sum(times) / len(times)),),
        time_per_output_token=found,
        newest_time_per_output_token=found,
        cap_binding=True,
        pod=pod.name,
        fingerprint="f",
        measured_at=stamp(START + slot * WINDOW / SLOTS),
    )


@dataclass
class Endpoint:
    """An endpoint that is sized slot after slot."""

    wanted: int
    noise: float
    seed: int
    pods: list[Pod] = field(default_factory=lambda: [Pod("pod-0", 256)])
    kept: Points = ()
    changes: list[int] = field(default_factory=list)

    def run(self, windows: int) -> None:
        generator = random.Random(self.seed)
        for slot in range(windows * SLOTS):
            self.pods[-1].serve(slot, generator, self.noise)
            if slot and (slot < 10 * SLOTS or slot % SLOTS == 0):
                self.look(slot)

    def look(self, slot: int) -> None:
        now = START + slot * WINDOW / SLOTS
        measured = [one for pod in self.pods if (one := point(pod, slot)) is not None]
        ledger = merge_points(self.kept, measured, now, WINDOW.total_seconds())
        in_force = self.pods[-1].seqs
        seqs = self.sized(ledger, slot, in_force)
        if seqs != in_force:
            self.changes.append(seqs)
            self.pods.append(Pod(f"pod-{len(self.pods)}", seqs))
        if seqs != in_force or matters(self.kept, ledger, now):
            self.kept = ledger

    def sized(self, ledger: Points, slot: int, in_force: int) -> int:
        mixed = [one for pod in self.pods for one in pod.times(slot)] or [0.02] * 100
        work = cases.workload(
            (500,) * 600,
            (100,) * 600,
            queued_percent=90.0,
            in_flight=cases.in_flight(running=41.0, kv_usage=0.01, scrapes=500),
            time_per_output_token=histogram(mixed),
        )
        spec = cases.endpoint(
            tuning={"initial": None, "minGainPercent": 10},
            objectives={
                "minOutputTokensPerSecond": self.wanted,
                "maxTimeToFirstTokenSeconds": None,
                "attainmentPercent": 90,
            },
        )
        sizing = cases.sized(spec, work=work, ledger=ledger, in_force=Settings(in_force, FRACTION))
        return sizing.settings.max_num_seqs


@pytest.mark.parametrize(
    ("noise", "seed"),
    [
        pytest.param(0.0, 0, id="each window like the other"),
        pytest.param(0.05, 1, id="windows that differ by 5 percent"),
    ],
)
@pytest.mark.parametrize(
    ("wanted", "changes"),
    [
        pytest.param(50, 3, id="50 tok/s"),
        pytest.param(100, 3, id="100 tok/s"),
        pytest.param(120, 3, id="120 tok/s"),
        # One at a time is right, and below what was measured each step goes to half at most.
        pytest.param(300, 5, id="300 tok/s"),
    ],
)
def test_the_right_rung_is_reached_in_few_changes_and_kept(wanted, changes, noise, seed):
    endpoint = Endpoint(wanted, noise, seed)
    endpoint.run(60)
    assert len(endpoint.changes) <= changes, endpoint.changes
    settled = sum(len(pod.slots) for pod in endpoint.pods[:-1])
    assert settled <= 10 * SLOTS
    reached, right = endpoint.changes[-1], right_rung(wanted)
    assert abs(RUNGS.index(reached) - RUNGS.index(right)) <= (1 if noise else 0)


DRAFTER = '{"method": "mtp", "num_speculative_tokens": 8}'


def real_run(seqs: int, next_request, clients: int, seconds: float) -> simulate.Result:
    """The simulated engine with measured step times, while all its slots are busy."""
    engine = simulate.Settings(
        "nvidia/Qwen3.6-27B-NVFP4",
        (
            "--max-model-len", "1048576", "--max-num-seqs", str(seqs), "--kv-cache-dtype", "fp8",
            "--gpu-memory-utilization", "0.952", "--speculative-config", DRAFTER,
        ),
        {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
    )  # fmt: skip
    return simulate.simulate_closed(engine, clients, next_request, seconds)


def real_point(run: simulate.Result, at: int, **fields) -> SpeedPoint:
    """What the ledger keeps of it."""
    times = token_times(run)
    found = histogram(times)
    return SpeedPoint(
        sum(one.running for one in run.samples) / len(run.samples),
        (1 / (sum(times) / len(times)),),
        time_per_output_token=found,
        newest_time_per_output_token=found,
        cap_binding=True,
        pod=f"pod-{at}",
        fingerprint="f",
        measured_at=stamp(START + at * WINDOW),
        **fields,
    )


def token_times(run: simulate.Result) -> list[float]:
    return [
        (one.finished_at - one.first_token_at) / (one.output_tokens - 1) for one in run.finished
    ]


def test_the_step_times_of_a_real_card_lead_to_a_rung_that_holds():
    endpoint, ledger, seqs, seen = Endpoint(100, 0.0, 0), (), 256, []
    for at in range(1, 7):
        run = real_run(
            seqs, lambda _: simulate.Arrival(0.0, 8700, 400, cached_tokens=8699), 300, 60.0
        )
        new = real_point(run, at)
        now = START + at * WINDOW
        ledger = merge_points(ledger, (new,), now, WINDOW.total_seconds())
        seen.append(seqs)
        seqs = endpoint.sized(ledger, 0, seqs)
    assert seen[3:] == [seqs] * 3, seen
    # A miss by less than minGainPercent moves nothing.
    assert 90 <= new.speed < 130


def long_answers(seed: int):
    """Requests whose answers fill the pool long after they were let in, as reasoning does."""
    lengths = random.Random(seed)
    return lambda _: simulate.Arrival(
        0.0, 1000, min(int(lengths.lognormvariate(11.3, 0.5)), 900_000)
    )


def test_where_requests_push_one_another_out_fewer_run_and_that_holds():
    spec = cases.endpoint(
        tuning={"initial": None, "minGainPercent": 10},
        objectives={"minOutputTokensPerSecond": None, "maxTimeToFirstTokenSeconds": 10},
    )
    ledger, seqs, seen, preempted = (), 40, [], []
    for at in range(1, 7):
        run = real_run(seqs, long_answers(7), 200, 8 * 3600.0)
        busy = run.samples[len(run.samples) // 10 :]  # all slots are taken from here on
        running = sum(one.running for one in busy) / len(busy)
        usage = sum(one.kv_cache_usage for one in busy) / len(busy)
        preemptions = run.scheduler.metrics.num_preemptions
        preempted.append(preemptions / len(run.finished))
        new = real_point(run, at, kv_share=usage, preemptions_per_request=preempted[-1])
        now = START + at * WINDOW
        ledger = merge_points(ledger, (new,), now, WINDOW.total_seconds())
        work = cases.workload(
            tuple(one.prompt_tokens for one in run.finished),
            tuple(one.output_tokens for one in run.finished),
            queued_percent=90.0,
            in_flight=cases.in_flight(
                running, usage, 4_540_000.0, preemptions=float(preemptions), scrapes=len(busy)
            ),
            time_to_first_token=read_histogram({"10": 1, "2560": 300}, 300, 300_000.0),
        )
        seen.append(seqs)
        in_force = Settings(seqs, FRACTION)
        seqs = cases.sized(spec, work=work, ledger=ledger, in_force=in_force).settings.max_num_seqs
    assert seen == [40, *[32] * 5]
    assert preempted[0] > 0.1 > max(preempted[1:])
    # Shorter answers make room for more again.
    shorter = replace(work, in_flight=replace(work.in_flight, kv_usage=usage / 2))
    more = cases.sized(spec, work=shorter, ledger=ledger, in_force=in_force)
    assert more.settings.max_num_seqs > 40
