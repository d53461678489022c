"""One line of JSON for every request, without what was asked."""

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pysldl.exceptions import DataError

__all__ = ["AccessLog"]


class AccessLog:
    """Writes who asked for what, when, how long it took and how it ended; never texts, labels or queries.

    Parameters
    ----------
    path : Path
        File to append to; "-" is standard error. Several processes may write to one file: a line is one write.

    Examples
    --------
    >>> import json, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = AccessLog(Path(folder, "access.log"))
    ...     log.write(client="127.0.0.1", method="POST", route="predict", status=200, seconds=0.00123456)
    ...     line = json.loads(Path(folder, "access.log").read_text())
    >>> line["route"], line["status"], line["seconds"]
    ('predict', 200, 0.001235)
    """

    def __init__(self, path: Path) -> None:
        if str(path) == "-":
            self._handle = sys.stderr.fileno()
            return
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        except OSError as error:
            raise DataError(f"{path}: the access log cannot be written there: {error.strerror or error}.") from error

    def write(self, *, seconds: float, **fields: Any) -> None:
        """Append one line; a disk that is full does not stop the service."""
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": when, **fields, "seconds": round(seconds, 6)}, separators=(",", ":"))
        try:
            os.write(self._handle, f"{line}\n".encode("ascii"))
        except OSError:
            return
