"""Describe the machine that a run is measured on; limit threads and measure peak memory."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import pysldl
from pysldl.backend.dispatch import has_numba
from pysldl.backend.threads import one_torch_thread

LIBRARIES = ("numpy", "scipy", "scikit-learn")
FURTHER_LIBRARIES = ("numba", "torch")
THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
    *("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NUMBA_CPU_NAME", "ATEN_CPU_CAPABILITY"),
)
OPENMP_VARIABLE = "OMP_NUM_THREADS"


def library_versions() -> dict[str, str]:
    """Versions of the library and of what its numbers depend on."""
    own = {"pysldl": pysldl.__version__, "python": platform.python_version()}
    return own | {name: version(name) for name in LIBRARIES}


def environment(jobs: int = 1, device: str | None = None) -> dict[str, str]:
    """Describe a run: date, versions, processor, cores, processes, device and thread settings."""
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


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within the block: processes of several threads on as many cores wait for each other."""
    with ExitStack() as limits:
        # Only the methods that need torch load it. It then reads the variable, once, and keeps to one thread.
        limits.enter_context(_openmp_threads("1"))
        if has_numba():
            import numba

            limits.callback(numba.set_num_threads, numba.get_num_threads())
            numba.set_num_threads(1)
        if "torch" in sys.modules:
            limits.enter_context(one_torch_thread())
        limits.enter_context(threadpool_limits(1))  # the last: numba may just have loaded a library
        yield


@contextmanager
def _openmp_threads(value: str) -> Iterator[None]:
    before = os.environ.get(OPENMP_VARIABLE)
    os.environ[OPENMP_VARIABLE] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[OPENMP_VARIABLE]
        else:
            os.environ[OPENMP_VARIABLE] = before


def reset_peak_memory() -> None:
    """Let the system measure the peak anew if it can; elsewhere the peak is that of the process so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """Highest resident memory, in MiB; 0 if the system does not say."""
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


def _commit() -> str:
    """The commit of a source checkout, with a plus if the sources differ from it; nothing elsewhere."""
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
