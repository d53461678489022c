"""What a disk may hold after a loss of power: the log of a writer's system calls, replayed up to any of them.

What was synced is there. Of the rest, anything may be there or not, in any combination: the content of a file without
its name, a name without its content, the second of two names without the first. That is less than most file systems
promise, and all that POSIX does.
"""

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CALLS = "openat,open,creat,mkdir,mkdirat,write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,unlink"
CALLS += ",unlinkat,rmdir,ftruncate,lseek,close,dup,dup2,dup3,fcntl"
LOSSES = ("nothing unsynced stays", "names stay, contents do not", "contents stay, names do not", "at random")

_LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass(eq=False)
class _File:
    """A file: its content as processes see it, and the content that was synced."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass(eq=False)
class _Folder:
    """A folder: its entries as processes see them, those that were synced, and the changes since then."""

    now: dict[str, "_File | _Folder"] = field(default_factory=dict)
    synced: dict[str, "_File | _Folder"] = field(default_factory=dict)
    changes: list[dict[str, "_File | _Folder | None"]] = field(default_factory=list)

    def change(self, **entries: "_File | _Folder | None") -> None:
        for name, entry in entries.items():
            if entry is None:
                self.now.pop(name, None)
            else:
                self.now[name] = entry
        self.changes.append(entries)

    def sync(self) -> None:
        self.synced, self.changes = dict(self.now), []


class Disk:
    """The content of a folder, from before a writer ran, that takes the calls of the writer one by one."""

    def __init__(self, folder: Path) -> None:
        self._path, self._root = folder, _snapshot(folder)
        self._open: dict[tuple[int, int], tuple[_File | _Folder, int, bool]] = {}

    def replay(self, log: Path) -> Iterator[str]:
        """Do the calls of a log that strace wrote with ``-f -xx``; yield the names of those that changed things."""
        pending: dict[str, str] = {}
        for line in log.read_text().splitlines():
            process = line.partition(" ")[0]
            if line.endswith("<unfinished ...>"):
                pending[process] = line[: -len(" <unfinished ...>")]
                continue
            if "resumed>" in line:
                line = pending.pop(process, "") + line.partition("resumed>")[2]
            found = _LINE.match(line)
            if found and int(found[4]) >= 0 and self._do(int(found[1]), found[2], found[3], int(found[4])):
                yield found[2]

    def _do(self, process: int, call: str, words: str, result: int) -> bool:
        texts = [bytes.fromhex(text.replace("\\x", "")) for text in _TEXT.findall(words)]
        if '"...' in words:
            raise ValueError("the log holds texts that were cut short")
        numbers = [word.strip() for word in _TEXT.sub("", words).split(",")]
        if call in ("openat", "open"):
            return self._on_open(process, numbers, texts[0], words, result)
        if call in ("mkdir", "mkdirat"):
            return self._on_name(process, numbers, texts[0], _Folder())
        if call in ("unlink", "unlinkat", "rmdir"):
            return self._on_name(process, numbers, texts[0], None)
        if call.startswith("rename"):
            return self._on_rename(texts)
        if call in ("dup", "dup2", "dup3") or (call == "fcntl" and "F_DUPFD" in words):
            if (process, int(numbers[0])) in self._open:
                self._open[process, result] = self._open[process, int(numbers[0])]
            return False
        handle = (process, int(numbers[0]))
        if handle not in self._open:
            return False
        return self._on_file(call, handle, numbers, texts, result)

    def _on_open(self, process: int, numbers: list[str], name: bytes, words: str, result: int) -> bool:
        folder, last = self._place(process, numbers[0], name)
        if folder is None:
            self._open.pop((process, result), None)
            return False
        entry = folder if last == "" else folder.now.get(last)
        is_new = entry is None
        if entry is None:
            entry = _File()
            folder.change(**{last: entry})
        changed = is_new
        if isinstance(entry, _File) and "O_TRUNC" in words and entry.now:
            entry.now.clear()
            changed = True
        self._open[process, result] = (entry, 0, "O_APPEND" in words)
        return changed

    def _on_name(self, process: int, numbers: list[str], name: bytes, entry: _Folder | None) -> bool:
        folder, last = self._place(process, numbers[0], name)
        if folder is None or not last:
            return False
        folder.change(**{last: entry})
        return True

    def _on_rename(self, texts: list[bytes]) -> bool:
        source, old = self._place(0, "AT_FDCWD", texts[0])
        target, new = self._place(0, "AT_FDCWD", texts[1])
        if source is None or target is None:
            return False
        assert source is target, "renamed from one folder into another"
        source.change(**{new: source.now[old], old: None})  # both or neither
        return True

    def _on_file(self, call: str, handle: tuple[int, int], numbers: list[str], texts: list[bytes], result: int) -> bool:
        entry, at, appends = self._open[handle]
        if call == "close":
            del self._open[handle]
        elif call in ("fsync", "fdatasync"):
            if isinstance(entry, _File):
                entry.synced = bytes(entry.now)
            else:
                entry.sync()
            return True
        elif call == "lseek":
            self._open[handle] = (entry, result, appends)
        elif call == "ftruncate":
            assert isinstance(entry, _File)
            del entry.now[int(numbers[1]) :]
            return True
        elif call in ("write", "pwrite64", "writev"):
            assert isinstance(entry, _File)
            at = len(entry.now) if appends else int(numbers[-1]) if call == "pwrite64" else at
            data = b"".join(texts)[:result]
            entry.now[at : at + len(data)] = data
            self._open[handle] = (entry, at + len(data), appends)
            return True
        return False

    def _place(self, process: int, folder: str, name: bytes) -> tuple[_Folder | None, str]:
        """Return the folder of a path and the last part of its name; no folder where it lies elsewhere."""
        text = os.fsdecode(name)
        node: _File | _Folder = self._root
        if Path(text).is_absolute():
            try:
                parts = Path(os.path.normpath(text)).relative_to(self._path).parts
            except ValueError:
                return None, ""
        elif (process, int(folder) if folder.isdecimal() else -1) in self._open:
            node, parts = self._open[process, int(folder)][0], Path(text).parts
        else:
            return None, ""
        for part in parts[:-1]:
            assert isinstance(node, _Folder)
            node = node.now[part]
        assert isinstance(node, _Folder)
        return node, parts[-1] if parts else ""

    def after_loss(self, loss: str, source: random.Random, target: Path) -> None:
        """Put into ``target`` what may be left of the folder."""
        for entry in target.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        _write(self._root, target, loss, source)


def _snapshot(folder: Path) -> _Folder:
    found = _Folder()
    for entry in folder.iterdir():
        if entry.is_dir():
            found.now[entry.name] = _snapshot(entry)
        else:
            content = entry.read_bytes()
            found.now[entry.name] = _File(bytearray(content), content)
    found.sync()
    return found


def _write(folder: _Folder, target: Path, loss: str, source: random.Random) -> None:
    keeps_names: Callable[[], bool] = {
        "nothing unsynced stays": lambda: False,
        "names stay, contents do not": lambda: True,
        "contents stay, names do not": lambda: False,
        "at random": lambda: source.random() < 0.5,
    }[loss]
    entries = dict(folder.synced)
    for change in folder.changes:
        if keeps_names():
            entries |= {name: entry for name, entry in change.items() if entry is not None}
            for name in (name for name, entry in change.items() if entry is None):
                entries.pop(name, None)
    for name, entry in entries.items():
        if isinstance(entry, _Folder):
            (target / name).mkdir()
            _write(entry, target / name, loss, source)
            continue
        content = bytes(entry.now) if loss.startswith("contents") else entry.synced
        if loss == "at random" and source.random() < 0.5:
            content = bytes(entry.now[: source.randrange(len(entry.now) + 1)])
            content = max(content, entry.synced, key=len) if entry.now.startswith(entry.synced) else content
        (target / name).write_bytes(content)
