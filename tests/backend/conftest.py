"""What the tests of the primitives share."""

import pytest


@pytest.fixture
def plain(monkeypatch):
    """Call a function as if numba were not there."""

    def call(function, *arguments, **keywords):
        with monkeypatch.context() as patch:
            patch.setattr("pysldl.backend.dispatch.has_numba", lambda: False)
            return function(*arguments, **keywords)

    return call
