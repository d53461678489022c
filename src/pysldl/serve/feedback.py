"""Feedback: the labels that people accept, reject and add on the page are kept in a file, or learned at once."""

import asyncio
import json
import logging
import os
import sys
import tempfile
from contextlib import suppress
from io import FileIO
from pathlib import Path

from pysldl._utils.files import file_lock, sync_folder
from pysldl.exceptions import DataError
from pysldl.serve.errors import ServiceError
from pysldl.serve.schemas import FeedbackRequest

WAIT = 10.0
BLOCK = 65_536
TIME_TO_LEARN = 600.0

logger = logging.getLogger("pysldl.serve")


class FeedbackStore:
    """Keeps feedback in a file that `sldl update` takes, or lets the model learn it at once.

    Several workers may append to ``file``, a line of JSON for each text. The folder ``model`` learns each piece of
    feedback by `sldl update`; the service then loads the new version as any other.
    """

    def __init__(self, file: Path | None = None, model: Path | None = None) -> None:
        self._file, self._model = file, model
        if file is not None:
            try:
                with file.open("ab"):
                    pass
            except OSError as error:
                raise DataError(f"{file}: feedback cannot be kept there: {error.strerror or error}.") from error

    @property
    def learns(self) -> bool:
        """Whether the model learns at once."""
        return self._model is not None

    def save(self, given: FeedbackRequest) -> None:
        """Append one text with its labels to the file, whole or not at all."""
        if self._file is None:
            return
        with file_lock(self._file.with_name(f".{self._file.name}.lock"), WAIT), _opened(self._file) as stream:
            end = _end_of_lines(stream)
            stream.seek(end)
            try:
                stream.truncate()
                left = _line(given)
                while left:
                    left = left[stream.write(left) :]
                os.fsync(stream.fileno())
            except OSError:  # no space: what was written of the line goes again
                with suppress(OSError):
                    os.ftruncate(stream.fileno(), end)
                raise
        sync_folder(self._file.parent)

    async def learn(self, given: FeedbackRequest) -> None:
        """Let the model learn one text with its labels, in a process of its own."""
        if self._model is None:
            return
        with tempfile.TemporaryDirectory(prefix="sldl-feedback-") as folder:
            rows = Path(folder, "feedback.jsonl")
            rows.write_bytes(_line(given))
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pysldl.cli", "update", str(self._model), str(rows), "--json"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(TIME_TO_LEARN):
                    _, said = await process.communicate()
            except BaseException:
                with suppress(ProcessLookupError):
                    process.kill()
                raise
        if process.returncode:
            logger.error("the model did not learn: %s", said.decode(errors="replace").strip()[-2000:])
            raise ServiceError("not_learned", "The model did not learn this; the log of the service says why.")


def _opened(path: Path) -> FileIO:
    """Open a file to read and to write it, and make it where it was removed.

    Without a buffer: what could not be written would be tried again when the file is closed.
    """
    return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "rb+")


def _end_of_lines(stream: FileIO) -> int:
    """Return where the next line begins; half a line that a killed process left does not count.

    A whole line without its end, as editors leave it, gets one.
    """
    end = stream.seek(0, os.SEEK_END)
    begin, tail = end, b""
    while begin and b"\n" not in tail:
        begin = max(0, begin - BLOCK)
        stream.seek(begin)
        tail = stream.read(end - begin)
    begin += tail.rfind(b"\n") + 1
    tail = tail[tail.rfind(b"\n") + 1 :]
    if not tail:
        return end
    try:
        json.loads(tail)
    except (ValueError, RecursionError):
        return begin
    stream.seek(end)
    return end + stream.write(b"\n")


def _line(given: FeedbackRequest) -> bytes:
    row = {"text": given.input, "labels": given.labels, "rejected": given.rejected}
    return json.dumps(row, ensure_ascii=True).encode("ascii") + b"\n"
