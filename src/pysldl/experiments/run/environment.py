"""Where a run was measured: versions, processor and thread settings, under a short id that records refer to."""

import hashlib
import json
import os
import platform
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pysldl

LIBRARIES = ("numpy", "scipy", "scikit-learn")
FURTHER_LIBRARIES = ("numba", "torch")
THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    *("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME", "ATEN_CPU_CAPABILITY"),
)


def library_versions() -> dict[str, str]:
    """Versions of the library and of what its numbers depend on."""
    own = {"pysldl": pysldl.__version__, "python": platform.python_version()}
    return own | {name: version(name) for name in LIBRARIES}


def environment(jobs: int = 1, device: str | None = None) -> dict[str, str]:
    """What is noted of a run: date, versions, processor, cores, processes, device and thread settings."""
    further = {}
    for name in FURTHER_LIBRARIES:
        with suppress(PackageNotFoundError):
            further[name] = version(name)
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        **library_versions(),
        **further,
        "processor": processor_name(),
        "cores": str(os.cpu_count() or ""),
        "processes": f"{jobs} of one thread each",
        "device": device or "",
        "thread_settings": " ".join(f"{name}={os.environ[name]}" for name in THREAD_VARIABLES if name in os.environ),
    }


def run_id(noted: dict[str, str]) -> str:
    """Eight hexadecimal digits that stand for an environment: equal ones have the same."""
    return hashlib.sha256(json.dumps(noted, sort_keys=True).encode()).hexdigest()[:8]


def processor_name() -> str:
    """The model name of the processor, as far as the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit of a source checkout, with a plus where the sources differ from it; nothing elsewhere."""
    folder = Path(__file__).resolve().parents[4]
    if not (folder / ".git").exists():
        return ""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
