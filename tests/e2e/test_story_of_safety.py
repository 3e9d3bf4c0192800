"""Good, better, too greedy, crash loop, reverted, not tried again, retried; then all of it fails.

Each test goes on where the last one ended; after one that failed, the rest say so.
"""

import pytest

from e2e import views
from testbed.demo import resources
from testbed.waiting import wait_until

NAME = resources.LONG
BORROWED = (resources.BORROWED_SEQS, resources.BORROWED_UTILIZATION)
NOT_RETRIED_SECONDS = 30
"""Ten times the operator's evaluation period."""
NO_FLAPPING_SECONDS = 30
GREEDY = {"spec": {"tuning": resources.GREEDY_TUNING}}
TERMINATION_MESSAGE_BYTES = 2048

BROKEN_DRIVER = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
WRAPPERS = "\n".join(
    f'  File "/usr/local/lib/python3.12/site-packages/uvloop/frame_{number}.py", line {number}, '
    "in run_until_complete"
    for number in range(40)
)
DRIVER_LOG = f"""\
(EngineCore_DP0 pid=42) ERROR [core.py:1510] EngineCore failed to start.
(EngineCore_DP0 pid=42) ERROR [core.py:1510] {BROKEN_DRIVER}
Traceback (most recent call last):
{WRAPPERS}
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}"""
"""The cause stands further up than a termination message reaches."""

# No part is tried again: it would go on from where the failed one left the world.
pytestmark = [pytest.mark.timeout(600), pytest.mark.flaky(reruns=0)]


class Story:
    """What one part tells the next."""

    failed = ""
    better = None
    rejected = None


@pytest.fixture(scope="module")
def story(world):
    """The operator, and the endpoint with traffic; all of it goes at the end."""
    world.install_operator()
    world.apply(*resources.setup())
    world.apply(resources.endpoint(NAME))
    yield Story()
    world.stop_traffic()
    world.node.kubectl("-n", resources.NAMESPACE, "delete", "iep", NAME, "--ignore-not-found")
    world.apply(resources.card_state({}))
    world.wait_for_deletion(NAME, 120)


@pytest.fixture(autouse=True)
def _in_order(request, story):
    """Parts that need an earlier one fail with its name, not with a puzzle."""
    if story.failed:
        pytest.fail(f"An earlier part of the story failed: {story.failed}", pytrace=False)
    story.failed = request.node.name
    yield
    if not getattr(request.node, "went_wrong", True):
        story.failed = ""


def test_borrowed_settings_become_the_last_good_ones(world, story):
    good = views.wait_ready(world, NAME)
    assert (good[0], float(good[1])) == (BORROWED[0], float(BORROWED[1]))


def test_better_settings_take_over(world, story):
    world.start_traffic(NAME)
    story.better = wait_until(
        lambda: (found := views.settled(world, NAME)) and _both_turned(found) and found,
        "what is recommended to run",
        240,
    )


def _both_turned(knobs):
    """Between the two the window has too few requests at times, and then what runs stays."""
    return knobs[0] != BORROWED[0] and float(knobs[1]) != float(BORROWED[1])


def test_too_greedy_ones_crash_and_are_reverted(world, story):
    serving = {uid for uid, *_ in views.identities(world, NAME)}
    greedy = {"extra_outside_budget_gib": resources.EXTRA_GIB}
    world.apply(resources.card_state({"pods": {NAME: greedy}}))
    views.patch(world, NAME, GREEDY)
    (story.rejected,) = wait_until(
        lambda: views.status(world, NAME).get("rejected"), "the settings to be rejected", 120
    )
    wait_until(
        lambda: world.running_settings(NAME) == story.better, "the revert", 30, interval_seconds=0.1
    )
    assert views.last_good(world, NAME) == story.better
    assert serving <= {uid for uid, *_ in views.identities(world, NAME)}
    assert world.condition(NAME, "Ready")["status"] == "True"


def test_the_evidence_outlives_the_pod(world, story):
    revision = story.rejected["revision"]
    wait_until(lambda: not views.pods_of(world, NAME, revision), "the crashed pod to go", 90)
    (kept,) = [
        one
        for one in views.status(world, NAME)["rejected"]
        if one["hash"] == story.rejected["hash"]
    ]
    assert "out of memory" in kept["message"]
    assert "GiB short" in kept["message"]
    assert float(kept["gpuMemoryUtilization"]) > float(story.better[1])
    failed = [one for one in views.status(world, NAME)["history"] if one["revision"] == revision]
    assert failed[0]["verdict"] == "Failed"
    assert "out of memory" in failed[0]["message"]
    assert "out of memory" in views.record(world, NAME)
    (told,) = views.events(world, NAME, "Reverting")
    assert "out of memory" in told["message"]


def test_what_failed_is_not_tried_again(world, story):
    revision = story.rejected["revision"]
    views.stays(
        lambda: not views.pods_of(world, NAME, revision),
        f"no pod with revision {revision}",
        NOT_RETRIED_SECONDS,
    )
    assert views.times_told(world, NAME, "Reverting") == 1
    assert story.rejected["hash"] in [one["hash"] for one in views.status(world, NAME)["rejected"]]


def test_a_person_may_ask_for_a_retry(world, story):
    world.apply(resources.card_state({}))
    wish = f"{story.rejected['hash']} the card has its memory back"
    world.node.kubectl(
        *("-n", resources.NAMESPACE, "annotate", "iep", NAME, "--overwrite"),
        f"serving.parkade.dev/retry={wish}",
    )
    wait_until(
        lambda: views.pods_of(world, NAME, story.rejected["revision"]), "a pod of the retry", 120
    )
    wait_until(
        lambda: views.status(world, NAME)["lastGood"]["revision"] == story.rejected["revision"],
        "the retry to be found good",
        120,
    )
    history = views.status(world, NAME)["history"]
    retried = [one for one in history if one["revision"] == story.rejected["revision"]]
    assert [one["verdict"] for one in retried] == ["Successful", "Failed"]
    assert "the card has its memory back" in str(history) + views.record(world, NAME)
    hashes = [one["hash"] for one in views.status(world, NAME).get("rejected", [])]
    assert story.rejected["hash"] not in hashes


def test_when_the_last_good_one_fails_too_all_stops_without_flapping(world, story):
    world.stop_traffic()
    wait_until(lambda: len(views.identities(world, NAME)) == 1, "one pod", 90)
    world.apply(resources.card_state({"start_failure_text": DRIVER_LOG}))
    world.node.kubectl(
        *("-n", resources.NAMESPACE, "delete", "pod", "--wait=false"),
        *("-l", f"serving.parkade.dev/endpoint={NAME}"),
    )
    wait_until(
        lambda: world.condition(NAME, "Stalled").get("reason") == "LastGoodFailing",
        "Stalled/LastGoodFailing",
        120,
    )
    found, deployment = world.condition(NAME, "Stalled"), world.deployment(NAME)
    assert "no kernel image is available" in found["message"]
    views.stays(
        lambda: (
            world.condition(NAME, "Stalled")["lastTransitionTime"] == found["lastTransitionTime"]
        ),
        "Stalled since then",
        NO_FLAPPING_SECONDS,
    )
    assert world.deployment(NAME)["metadata"]["generation"] == deployment["metadata"]["generation"]
    assert views.times_told(world, NAME, "LastGoodFailing") == 1
    assert views.events(world, NAME, "LastGoodFailing")[0]["type"] == "Warning"


def test_the_cause_came_from_the_log_and_not_from_the_termination_message(world, story):
    (pod,) = world.pods(NAME)
    (container,) = pod["status"]["containerStatuses"]
    ended = container["state"].get("terminated") or container["lastState"]["terminated"]
    assert len(ended["message"]) <= TERMINATION_MESSAGE_BYTES
    assert "Engine core initialization failed" in ended["message"]
    assert "no kernel image" not in ended["message"]


def test_it_recovers_by_itself_when_the_cause_goes_away(world, story):
    before = [uid for uid, *_ in views.identities(world, NAME)]
    world.apply(resources.card_state({}))
    wait_until(lambda: world.condition(NAME, "Stalled")["status"] == "False", "not Stalled", 150)
    wait_until(lambda: world.condition(NAME, "Ready")["status"] == "True", "Ready", 30)
    assert [uid for uid, *_ in views.identities(world, NAME)] == before
    assert world.running_settings(NAME) == views.last_good(world, NAME)
