"""Files are written whole or not at all."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pysldl._utils.files import new_folder, open_atomic, slug, write_atomically
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


def test_a_folder_comes_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.mkdir()
    with new_folder(path) as part:
        (part / "a.txt").write_text("new")
        assert not any(path.iterdir())
    assert (path / "a.txt").read_text() == "new" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(RuntimeError), new_folder(tmp_path / "other") as part:
        (part / "a.txt").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from pysldl._utils.files import new_folder

with new_folder(Path(sys.argv[1])) as part:
    (part / "a.txt").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_the_next_folder_removes_what_a_killed_process_left_and_nothing_of_a_living_one(tmp_path: Path) -> None:
    path = tmp_path / "made"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL and len(list(tmp_path.iterdir())) == 1
    with new_folder(path) as living:
        assert list(tmp_path.iterdir()) == [living]
        with new_folder(tmp_path / "made") as second:
            (second / "a.txt").write_text("second")
        assert living.is_dir()
        path.rename(tmp_path / "elsewhere")
    assert {entry.name for entry in tmp_path.iterdir()} == {"made", "elsewhere"}


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
