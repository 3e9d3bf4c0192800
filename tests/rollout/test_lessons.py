"""What failures teach: how much smaller the next try is, and the words for it."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parkade.api.settings import Settings
from parkade.rollout.actions import Action
from parkade.rollout.causes import Blame, CauseClass, Knob, RootCause
from parkade.rollout.lessons import Limits, fewer_again, quarantined, raised_headroom
from parkade.rollout.record import Record, SeenTermination
from parkade.rollout.steps import next_steps
from rollout.support.driver import Operator
from rollout.support.objects import GIB, TOTAL, body, settings
from rollout.support.states import NOW, candidate, revision
from rollout.support.stories import INITIAL
from rollout.support.world import Fate, World

SIZED = Limits("tuning", TOTAL)


def ended(**changes) -> SeenTermination:
    return replace(
        SeenTermination(
            "uid",
            1,
            before_ready=True,
            cause_class=CauseClass.OOM_CUDAGRAPH_CAPTURE,
            blame=Blame.SETTINGS,
            knob=Knob.HEADROOM,
            message="CUDA out of memory",
            shortfall_bytes=GIB,
        ),
        **changes,
    )


@pytest.mark.parametrize(
    ("before", "short", "after"),
    [
        pytest.param(6 * GIB, GIB, 7.25, id="a quarter on top of one GiB"),
        pytest.param(6 * GIB, 4 * GIB, 11, id="a quarter on top of four GiB"),
        pytest.param(6 * GIB, 0, 6.25, id="never less than a quarter GiB"),
        pytest.param(6 * GIB, None, 7.25, id="one GiB is assumed where no figure is named"),
        pytest.param(6 * GIB, int(0.96 * GIB), 7.25, id="rounded up to a sixteenth"),
        pytest.param(0, 24 * GIB, 30, id="a large one"),
    ],
)
def test_raised_headroom(before: int, short: int | None, after: float) -> None:
    assert raised_headroom(before, short) / GIB == after


@pytest.mark.parametrize(
    ("before", "short", "after"),
    [
        pytest.param(6 * GIB, 160 * GIB, TOTAL, id="more than is left"),
        pytest.param(TOTAL, GIB, TOTAL, id="nothing is left"),
        pytest.param(
            TOTAL + GIB, GIB, TOTAL + GIB, id="a user who asks for more than the card has"
        ),
        pytest.param(6 * GIB, -5, int(6.25 * GIB), id="a negative shortfall"),
    ],
)
def test_the_headroom_never_grows_beyond_the_card(before: int, short: int, after: int) -> None:
    assert raised_headroom(before, short, TOTAL) == after


@pytest.mark.parametrize(
    ("blamed", "shrink", "message", "at_most", "below"),
    [
        pytest.param(
            ended(),
            False,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: CUDA out of memory. "
            "1.0 GiB short: headroom 6 -> 7.25 GiB.",
            "0.9430",
            None,
            id="graphs are paid for by the headroom",
        ),
        pytest.param(
            ended(shortfall_bytes=None),
            False,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: CUDA out of memory. "
            "Shortfall not named, 1 GiB assumed: headroom 6 -> 7.25 GiB.",
            "0.9430",
            None,
            id="a shortfall that is not named",
        ),
        pytest.param(
            ended(shortfall_bytes=400 * GIB),
            False,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: CUDA out of memory. "
            "Shortfall not named, 1 GiB assumed: headroom 6 -> 7.25 GiB.",
            "0.9430",
            None,
            id="a shortfall of more than the card has",
        ),
        pytest.param(
            ended(knob=Knob.MAX_NUM_SEQS, cause_class=CauseClass.OOM_DURING_PROFILE),
            False,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: CUDA out of memory. "
            "max_num_seqs 256 -> at most 192.",
            None,
            193,
            id="the profile run is paid for by fewer sequences",
        ),
        pytest.param(
            ended(knob=Knob.MAX_NUM_SEQS, max_num_seqs_at_most=37),
            False,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: CUDA out of memory. "
            "max_num_seqs 256 -> at most 37.",
            None,
            38,
            id="the engine names the bound",
        ),
        pytest.param(
            ended(knob=None, cause_class=CauseClass.KV_BELOW_ONE_REQUEST),
            True,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: CUDA out of memory.",
            None,
            None,
            id="no knob makes one request fit",
        ),
        pytest.param(
            ended(knob=None, cause_class=CauseClass.UNKNOWN, blame=Blame.UNKNOWN, message=""),
            False,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: the error is not known.",
            None,
            None,
            id="an unknown cause teaches nothing",
        ),
        pytest.param(
            ended(
                knob=None,
                cause_class=CauseClass.UNKNOWN,
                blame=Blame.UNKNOWN,
                message="",
                shortfall_bytes=None,
            ),
            True,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: the error is not known. "
            "Shortfall not named, 1 GiB assumed: headroom 6 -> 7.25 GiB. "
            "max_num_seqs 256 -> at most 192.",
            "0.9430",
            193,
            id="with no last good template even an unknown cause leads to a smaller try",
        ),
        pytest.param(
            ended(knob=Knob.MAX_NUM_SEQS, cause_class=CauseClass.MAX_NUM_SEQS_BELOW_ACTIVE_SEQS),
            False,
            "max_num_seqs 256 with gpu_memory_utilization 0.95 failed: CUDA out of memory.",
            None,
            None,
            id="a larger value would help, so none is cut",
        ),
    ],
)
def test_lesson(blamed, shrink: bool, message: str, at_most: str | None, below: int | None) -> None:
    one = candidate(revision(some=settings(256, "0.95")))
    entry = quarantined(one, blamed, SIZED, NOW, shrink_on_unknown=shrink)
    assert entry.message == message
    assert entry.utilization_at_most == (Decimal(at_most) if at_most else None)
    assert entry.max_num_seqs_below == below
    assert entry.key == one.revision.quarantine_key


@pytest.mark.parametrize(
    ("cause", "at_most", "blame"),
    [
        pytest.param(CauseClass.OOM_DURING_PROFILE, None, Blame.SETTINGS, id="the profile run"),
        pytest.param(CauseClass.OOM_SAMPLER_WARMUP, None, Blame.SETTINGS, id="the sampler"),
        pytest.param(
            CauseClass.MAX_NUM_SEQS_EXCEEDS_MAMBA_BLOCKS, 37, Blame.SETTINGS, id="a named bound"
        ),
        pytest.param(CauseClass.UNKNOWN, None, Blame.UNKNOWN, id="an unknown cause"),
    ],
)
def test_the_cap_on_sequences_outlives_a_lost_record(cause, at_most, blame) -> None:
    one = candidate(revision(some=settings(256, "0.95")))
    knob = Knob.MAX_NUM_SEQS if blame is Blame.SETTINGS else None
    blamed = ended(cause_class=cause, blame=blame, knob=knob, max_num_seqs_at_most=at_most)
    entry = quarantined(one, blamed, SIZED, NOW, shrink_on_unknown=True)
    again = fewer_again(entry.settings, entry.cause, entry.message)
    assert again == entry.max_num_seqs_below == (at_most + 1 if at_most else 193)


@pytest.mark.parametrize(
    ("seqs", "cause", "message", "below"),
    [
        pytest.param(256, "oom_sampler_warmup", "cut off", 193, id="the class alone"),
        pytest.param(1, "oom_sampler_warmup", "", 2, id="one sequence"),
        pytest.param(256, "oom_cudagraph_capture", "headroom 6 -> 7.25 GiB.", None, id="headroom"),
        pytest.param(256, "of the next version", "", None, id="a class that is not known"),
        pytest.param(256, "", "max_num_seqs 256 -> at most 999999999", 193, id="no smaller number"),
        pytest.param(256, "", "max_num_seqs 256 -> at most 0", 193, id="none at all"),
    ],
)
def test_the_cap_as_the_status_tells_it(seqs, cause, message, below) -> None:
    assert fewer_again(settings(seqs), cause, message) == below


@given(
    utilization=st.integers(600, 10_000),
    seqs=st.integers(2, 1024),
    short=st.none() | st.integers(0, 400 * GIB),
    total=st.none() | st.integers(GIB, 300 * GIB),
    knob=st.sampled_from(Knob),
)
def test_the_next_try_is_always_smaller_and_never_in_quarantine(
    utilization: int, seqs: int, short: int | None, total: int | None, knob: Knob
) -> None:
    failed = Settings(seqs, Decimal(utilization) / 10_000)
    one = candidate(revision(some=failed))
    blamed = ended(shortfall_bytes=short, knob=knob)
    entry = quarantined(one, blamed, Limits("t", total), NOW, shrink_on_unknown=False)
    record = Record("uid").with_quarantined(entry)
    left = record.cut(failed, one.revision.fingerprint, "t")
    assert left.max_num_seqs <= failed.max_num_seqs
    assert left.gpu_memory_utilization <= failed.gpu_memory_utilization
    assert left != failed
    assert left.max_num_seqs >= 1
    assert left.gpu_memory_utilization > 0


SEQS = {"knob": Knob.MAX_NUM_SEQS, "cause_class": CauseClass.OOM_SAMPLER_WARMUP}
UNKNOWN = {"cause_class": CauseClass.UNKNOWN, "blame": Blame.UNKNOWN, "knob": None}


@pytest.mark.parametrize(
    ("seqs", "least", "changes", "tries"),
    [
        pytest.param(256, 1, {"knob": Knob.MAX_NUM_SEQS}, [192, 144, 108], id="no least number"),
        pytest.param(
            256, 150, {"knob": Knob.MAX_NUM_SEQS}, [192, 150], id="the least number, then no more"
        ),
        pytest.param(
            256, 256, {"knob": Knob.MAX_NUM_SEQS}, [], id="it is the least number already"
        ),
        pytest.param(
            256,
            100,
            {"knob": Knob.MAX_NUM_SEQS, "max_num_seqs_at_most": 37},
            [100],
            id="the engine takes less than the least number",
        ),
        pytest.param(64, 256, {"knob": Knob.MAX_NUM_SEQS}, [], id="less than the least number ran"),
        pytest.param(256, 256, UNKNOWN, [256, 256, 256], id="only the other knob is left"),
    ],
)
def test_a_smaller_try_stays_within_the_range_of_the_user(
    seqs: int, least: int, changes, tries: list[int]
) -> None:
    first = settings(seqs, "0.95")
    record, left, seen = Record("uid"), first, []
    for _ in range(4):
        one = candidate(revision(some=left))
        entry = quarantined(
            one, ended(**changes), Limits("t", TOTAL, least), NOW, shrink_on_unknown=True
        )
        again = fewer_again(left, entry.cause, entry.message, least)
        assert again in {None, entry.max_num_seqs_below}
        record = record.with_quarantined(entry)
        left = record.cut(first, one.revision.fingerprint, "t", least)
        if record.is_quarantined(revision(some=left).quarantine_key):
            break
        seen.append(left.max_num_seqs)
    assert seen[:3] == tries


def test_what_failed_under_a_wider_range_is_not_cut_below_the_new_one() -> None:
    one = candidate(revision(some=settings(256)))
    entry = quarantined(one, ended(**SEQS), SIZED, NOW, shrink_on_unknown=False)
    record, fingerprint = Record("uid").with_quarantined(entry), one.revision.fingerprint
    assert record.cut(settings(256), fingerprint, "new", 256) == settings(256)
    assert record.cut(settings(256), fingerprint, "new", 200) == settings(200)
    assert record.cut(settings(64), fingerprint, "new", 256) == settings(64)


SAMPLER = RootCause(
    CauseClass.OOM_SAMPLER_WARMUP,
    Blame.SETTINGS,
    knob=Knob.MAX_NUM_SEQS,
    message="out of memory in the sampler",
)


@pytest.mark.parametrize(
    ("cause", "tried", "says"),
    [
        pytest.param(
            SAMPLER,
            [settings(256)],
            "tuning.maxNumSeqs.min 256 allows no fewer",
            id="fewer sequences would help",
        ),
        pytest.param(
            None,
            [settings(256, each) for each in ("0.9", "0.893", "0.886", "0.879")],
            "4 settings failed",
            id="nobody knows what would: a smaller fraction is tried",
        ),
    ],
)
def test_nothing_good_and_no_fewer_sequences_allowed_ends_in_a_plain_word(
    cause: RootCause | None, tried: list[Settings], says: str
) -> None:
    tuning = {"initial": INITIAL, "maxNumSeqs": {"min": 256, "max": 1024}}
    operator = Operator(World(), body({"tuning": tuning}))
    operator.world.fate = lambda _some, _image: Fate(5, cause, unknown_crash=cause is None)
    operator.run(3600)
    deployed = [one for one in operator.plans if one.action is Action.DEPLOY]
    assert [one.record.candidate.revision.settings for one in deployed] == tried
    status, reason, message = operator.condition("Stalled")
    assert (status, reason) == ("True", "NoKnownGoodSettings")
    assert says in message


@pytest.mark.parametrize(
    ("running", "wanted", "steps"),
    [
        pytest.param(
            settings(256, "0.95"),
            settings(32, "0.9"),
            [(settings(256, "0.9"), Knob.HEADROOM), (settings(32, "0.95"), Knob.MAX_NUM_SEQS)],
            id="a smaller fraction goes first",
        ),
        pytest.param(
            settings(256, "0.9"),
            settings(32, "0.95"),
            [(settings(32, "0.9"), Knob.MAX_NUM_SEQS), (settings(256, "0.95"), Knob.HEADROOM)],
            id="fewer sequences go before a larger fraction",
        ),
        pytest.param(
            settings(32, "0.9"),
            settings(256, "0.95"),
            [(settings(256, "0.9"), Knob.MAX_NUM_SEQS), (settings(32, "0.95"), Knob.HEADROOM)],
            id="more sequences in the same budget go before a larger one",
        ),
        pytest.param(settings(), settings(), [], id="nothing to do"),
    ],
)
def test_one_knob_at_a_time(running: Settings, wanted: Settings, steps) -> None:
    assert list(next_steps(running, wanted)) == steps
