"""Methods that only some models have."""

import pytest

from pysldl._utils.light_estimator import available_if
from pysldl.exceptions import NotAvailableError


class Door:
    def __init__(self, locked):
        self.locked = locked

    @available_if(lambda door: "it is locked." if door.locked else None)
    def enter(self, name):
        """Go in."""
        return f"hello {name}"


def test_the_method_is_there_or_says_why_not():
    assert hasattr(Door(False), "enter") and Door(False).enter("you") == "hello you"
    assert not hasattr(Door(True), "enter") and Door.enter.__doc__ == "Go in."
    with pytest.raises(NotAvailableError, match=r"This Door has no enter: it is locked\."):
        Door(True).enter("you")
