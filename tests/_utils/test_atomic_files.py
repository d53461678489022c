"""Files are written whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from pysldl._utils.files import open_atomic, slug, write_atomically
from pysldl.exceptions import DataError


def test_a_file_is_replaced_only_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with open_atomic(path) as stream:
        stream.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), open_atomic(path) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_others_may_read_what_the_umask_allows(tmp_path: Path) -> None:
    path = write_atomically(tmp_path / "deep" / "a.txt", "ä")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask and path.read_bytes() == "ä".encode()


def test_what_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is a directory"), open_atomic(tmp_path):
        pass
    with pytest.raises(DataError, match="cannot be written"), open_atomic(tmp_path / "missing" / "a.txt"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be made a folder"):
        write_atomically(tmp_path / "file" / "a.txt", "")


def test_names_of_files() -> None:
    assert slug("PSnDCG@5") == "psndcg-5" and slug("w/o GE (symmetric)") == "w-o-ge--symmetric"
