"""The story of the demo, as a test; it is told in the terminal as it happens."""

import pytest

from testbed.demo.screen import Screen
from testbed.demo.story import play


@pytest.mark.timeout(900)
def test_the_whole_story_of_the_demo_happens(world, capsys):
    with capsys.disabled():
        claims = play(world, Screen())
    wrong = [f"{one.sentence}: {one.seen}" for one in claims.failed]
    assert not wrong, "\n".join(wrong)
    assert len(claims.made) > 20
