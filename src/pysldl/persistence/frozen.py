"""A sealed copy of a version's arrays in memory, which nobody can change or truncate.

Arrays that are mapped from a file end the process when somebody shortens the file, and change when somebody writes to
it. A service maps a sealed copy instead, once for all of its processes.
"""

import os
import sys
from pathlib import Path

from pysldl._utils.files import open_regular
from pysldl.persistence.manifest import ARRAYS


class FrozenArrays:
    """A sealed copy in memory; other processes of the same user find it under ``path`` while it is open.

    Arrays that were mapped from it stay when it is closed. The memory is freed when nobody has it open or mapped.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.path = Path(f"/proc/{os.getpid()}/fd/{handle}")

    def close(self) -> None:
        """Close the copy; arrays that were mapped from it stay valid."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()


def frozen_arrays(version: Path) -> FrozenArrays | None:
    """Copy the arrays of a version into sealed memory; None on systems that do not support it.

    An ``OSError`` is raised if the file cannot be read or there is not enough memory.
    """
    if sys.platform != "linux" or not hasattr(os, "memfd_create"):
        return None
    import fcntl

    try:
        handle = os.memfd_create("pysldl-arrays", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:  # forbidden to this process
        return None
    frozen = FrozenArrays(handle)
    with open_regular(version / ARRAYS) as stream:
        while os.sendfile(handle, stream.fileno(), None, 1 << 30):
            pass
    seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, seals)
    return frozen
