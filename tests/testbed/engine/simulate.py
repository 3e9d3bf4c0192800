"""The engine on a simulated clock: hours of traffic in seconds, for tests and benchmarks.

settings = Settings(model="nvidia/Qwen3.6-27B-NVFP4", flags=("--max-num-seqs", "32"))
result = simulate(settings, arrivals, horizon_seconds=3600)
result.metrics_text     # the page that /metrics would show
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from testbed.engine import startup
from testbed.engine.arguments import EngineArguments, parse
from testbed.engine.environment import Environment
from testbed.engine.exposition import page
from testbed.engine.metrics import Metrics
from testbed.engine.requests import Request
from testbed.engine.scheduler import Limits, Scheduler
from testbed.engine.steptimes import step_times


class StartError(RuntimeError):
    """The engine did not start with these settings; the message is what it printed last."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A model, the flags after ``vllm serve MODEL``, and the simulation's variables."""

    model: str
    flags: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that comes at `seconds`, of which `cached_tokens` are in the prefix cache."""

    seconds: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """Gauges at one time, as a scrape would see them."""

    seconds: float
    running: int
    waiting: int
    kv_cache_usage: float


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left behind. `finished` is in the order of the end."""

    horizon_seconds: float
    finished: tuple[Request, ...]
    samples: tuple[Sample, ...]
    pages: Mapping[float, str]
    scheduler: Scheduler
    engine: startup.Started
    arguments: EngineArguments

    @property
    def output_tokens_per_second(self) -> float:
        """All tokens generated, over the whole horizon."""
        return self.scheduler.generation_tokens() / self.horizon_seconds

    @property
    def metrics_text(self) -> str:
        """The page of /metrics at the end."""
        return page(self.scheduler, self.engine, self.arguments, created=0.0)


def build(
    arguments: EngineArguments, engine: startup.Started, metrics: Metrics | None = None
) -> Scheduler:
    """The scheduler of a started engine."""
    limits = Limits(
        max_num_seqs=arguments.max_num_seqs,
        max_num_batched_tokens=arguments.max_num_batched_tokens,
        num_speculative_tokens=arguments.cache.num_speculative_tokens,
    )
    counts = metrics or Metrics.create(engine.max_model_len, arguments.custom_histogram_buckets)
    times = step_times(engine.model, arguments.cache)
    return Scheduler(limits, engine.layout, engine.num_blocks, times, counts)


def simulate(
    settings: Settings,
    arrivals: Iterable[Arrival],
    horizon_seconds: float,
    *,
    scrape_seconds: float = 15.0,
    pages_at: Iterable[float] = (),
) -> Result:
    """Open loop: requests come when they come. Raises StartError where the engine cannot start."""
    run = _Run(settings, horizon_seconds, scrape_seconds, pages_at)
    for arrival in arrivals:
        if arrival.seconds >= horizon_seconds:
            break
        run.until(arrival.seconds)
        run.add(arrival)
    return run.end()


def simulate_closed(
    settings: Settings,
    concurrency: int,
    next_request: Callable[[int], Arrival],
    horizon_seconds: float,
    *,
    pause_seconds: float = 0.0,
    pages_at: Iterable[float] = (),
) -> Result:
    """Closed loop: `concurrency` clients, each of which asks again `pause_seconds` after an answer.

    `next_request` makes the request of a given number; its time is set here.
    """
    run = _Run(settings, horizon_seconds, 15.0, pages_at)
    numbers = itertools.count()
    # Clients start apart, so that they do not move in step for ever.
    due = [(pause_seconds * client / concurrency, client) for client in range(concurrency)]
    heapq.heapify(due)
    run.on_finish = lambda request: heapq.heappush(
        due, ((request.finished_at or 0.0) + pause_seconds, request.number)
    )
    while True:
        event = run.scheduler.next_event()
        time = min(due[0][0] if due else horizon_seconds, event or horizon_seconds)
        if time >= horizon_seconds:
            return run.end()
        run.until(time)
        while due and due[0][0] <= time:
            heapq.heappop(due)
            wanted = next_request(next(numbers))
            run.add(replace(wanted, seconds=time))


class _Run:
    """A scheduler, the samples taken of it, and the requests that it finished."""

    def __init__(
        self,
        settings: Settings,
        horizon_seconds: float,
        scrape_seconds: float,
        pages_at: Iterable[float],
    ) -> None:
        environment = Environment.read(settings.variables)
        self.arguments = parse([settings.model, *settings.flags], environment.gpu_total_bytes)
        script = startup.start(self.arguments, environment)
        if script.started is None:
            raise StartError(script.lines[-1].text.splitlines()[-1])
        self.engine = script.started
        self.scheduler = build(self.arguments, script.started)
        self.horizon_seconds = horizon_seconds
        self.on_finish: Callable[[Request], None] | None = None
        self._scrape_seconds = scrape_seconds
        self._next_scrape = scrape_seconds
        self._pages_due = sorted(pages_at)
        self._pages: dict[float, str] = {}
        self._finished: list[Request] = []
        self._samples: list[Sample] = []
        self._numbers = itertools.count()

    def add(self, arrival: Arrival) -> None:
        output = max(arrival.output_tokens, 1)
        self.scheduler.add(
            Request(
                number=next(self._numbers),
                prompt_tokens=max(arrival.prompt_tokens, 1),
                output_tokens=output,
                max_tokens=output,
                arrival=arrival.seconds,
                cached_tokens=arrival.cached_tokens,
                on_finish=self._ended,
            )
        )

    def _ended(self, request: Request) -> None:
        self._finished.append(request)
        if self.on_finish:
            self.on_finish(request)

    def until(self, seconds: float) -> None:
        """Run to this time, and take the samples and pages that fall before it."""
        while True:
            page_at = self._pages_due[0] if self._pages_due else math.inf
            if min(page_at, self._next_scrape) > seconds:
                break
            if page_at <= self._next_scrape:
                self.scheduler.advance(page_at)
                self._pages[self._pages_due.pop(0)] = self._page()
            else:
                self._sample()
        self.scheduler.advance(seconds)

    def _sample(self) -> None:
        engine, now = self.scheduler, self._next_scrape
        engine.advance(now)
        usage = engine.kv_cache_usage()
        self._samples.append(Sample(now, len(engine.running), len(engine.waiting), usage))
        self._next_scrape += self._scrape_seconds

    def _page(self) -> str:
        return page(self.scheduler, self.engine, self.arguments, created=0.0)

    def end(self) -> Result:
        self.until(self.horizon_seconds)
        return Result(
            horizon_seconds=self.horizon_seconds,
            finished=tuple(self._finished),
            samples=tuple(self._samples),
            pages=dict(self._pages),
            scheduler=self.scheduler,
            engine=self.engine,
            arguments=self.arguments,
        )
