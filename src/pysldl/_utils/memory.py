"""Find out how much memory is available, and refuse work that would need more."""

import os
import re
from pathlib import Path

from pysldl.exceptions import DataError, MemoryLimitError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping, or None if the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def resident_memory() -> tuple[int, int]:
    """Return the bytes of this process that are in memory, and those among them that are pages of files.

    Zeros where the system does not say.
    """
    try:
        _, resident, mapped, *_ = Path("/proc/self/statm").read_text().split()
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(resident) * page, int(mapped) * page


def fits_in_memory(needed: int, limit: int | str | None = None) -> bool:
    """Return whether ``needed`` bytes are within ``limit``, or within what is available."""
    allowed = available_memory() if limit is None else parse_bytes(limit)
    return allowed is None or needed <= allowed


def require_memory(needed: int, what: str, advice: str, limit: int | str | None = None) -> None:
    """Raise :class:`MemoryLimitError` when ``needed`` bytes are more than ``limit``, or than are available.

    Examples
    --------
    >>> require_memory(8 * 10**9, "A dense matrix", "Ask for less.", limit="1 GB")
    Traceback (most recent call last):
    ...
    pysldl.exceptions.MemoryLimitError: A dense matrix needs about 8.0 GB, but the limit is 1.0 GB. Ask for less.
    """
    if limit is None:
        allowed, bound = available_memory(), "only {} are available"
    else:
        allowed, bound = parse_bytes(limit), "the limit is {}"
    if allowed is not None and needed > allowed:
        bound = bound.format(format_bytes(allowed))
        raise MemoryLimitError(f"{what} needs about {format_bytes(needed)}, but {bound}. {advice}")


def parse_bytes(size: int | str) -> int:
    """Return the bytes of a size given as a number or as text such as ``"12 GB"`` or ``"512MiB"``."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", str(size))
    if match is None or match[2].upper() not in _UNITS:
        raise DataError(f"{size!r} is not a memory size; write for example '4 GB'.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def format_bytes(size: int) -> str:
    """Return the bytes in the largest fitting decimal unit."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} B"
