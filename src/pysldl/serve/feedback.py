"""What becomes of the labels that people accept, reject and add on the page."""

import asyncio
import json
import logging
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from pysldl._utils.locks import file_lock
from pysldl.exceptions import DataError
from pysldl.serve.errors import ServiceError
from pysldl.serve.schemas import FeedbackRequest

__all__ = ["Teacher"]

WAIT = 10.0
TIME_TO_LEARN = 600.0

logger = logging.getLogger("pysldl.serve")


class Teacher:
    """Keeps feedback in a file that `sldl update` takes, or teaches it to the model at once.

    Parameters
    ----------
    file : Path, optional
        Feedback is appended here, a line of JSON for each text. Several workers may write to it.
    model : Path, optional
        Model folder that learns each piece of feedback at once, by `sldl update`; the service then loads the new
        version as any other.
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
        with file_lock(self._file.with_name(f".{self._file.name}.lock"), WAIT), self._file.open("ab+") as stream:
            end = stream.seek(0, os.SEEK_END)
            if end:
                stream.seek(end - 1)
                if stream.read(1) != b"\n":  # somebody edited it, or was killed
                    stream.write(b"\n")
            stream.write(_line(given))
            stream.flush()
            os.fsync(stream.fileno())

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


def _line(given: FeedbackRequest) -> bytes:
    row = {"text": given.input, "labels": given.labels, "rejected": given.rejected}
    return json.dumps(row, ensure_ascii=True).encode("ascii") + b"\n"
