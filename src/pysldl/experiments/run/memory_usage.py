"""How much memory this process has used at most."""

import sys
from contextlib import suppress
from pathlib import Path


def reset_peak_memory() -> None:
    """Let the system measure the peak anew where it can; elsewhere the peak is that of the process so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Highest resident memory, in MiB; 0 where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 1024)
