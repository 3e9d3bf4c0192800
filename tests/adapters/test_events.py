"""Events of an endpoint: counted up, told apart by their words, and never too long."""

from hypothesis import given
from hypothesis import strategies as st

from parkade.adapters import events
from support.clusters import call, status
from support.servers import Reply

SUBJECT = events.Subject("ns", "iep", "u-1")


def test_the_same_event_is_counted_up(now):
    replies = [status(409, "exists"), Reply(body={"count": 3}), Reply(body={})]
    _, asked = call(
        lambda cluster: events.post(
            cluster, SUBJECT, reason="Reverted", message="why", warning=True, now=now
        ),
        *replies,
    )
    assert [one.method for one in asked] == ["POST", "GET", "PATCH"]
    assert asked[2].json == {"count": 4, "lastTimestamp": "2026-11-29T23:00:00Z"}


def test_events_with_other_words_have_other_names(now):
    one, other = (
        events.event_body(SUBJECT, reason="R", message=text, warning=False, now=now)
        for text in ("a", "b")
    )
    assert one["metadata"]["name"] != other["metadata"]["name"]
    assert one["type"] == "Normal"


@given(st.text(max_size=3000))
def test_an_event_message_always_fits(text):
    assert len(events._fit(text).encode()) <= events.MAX_NOTE_LENGTH
