"""Without Annif the backend says which extra to install."""

import sys

import pytest

from pysldl.annif import register
from pysldl.annif.__main__ import main
from pysldl.exceptions import MissingDependencyError


def test_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "annif", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pysldl\[annif\]'"):
        register()
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "pysldl[annif]" in capsys.readouterr().err
