"""Several machines on one: settings of environment variables under which results are compared.

A setting limits the threads, lets libraries believe in an older processor, or hides numba. Most variables are read
when a library is loaded, so every setting needs a process of its own: :func:`environment` makes its variables.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

__all__ = ["MachineSetting", "available_settings", "choose_settings", "environment", "run_under"]

ROOT = Path(__file__).resolve().parent.parent
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
HIDING_NUMBA = ROOT / "benchmarks" / "hidden"  # its sitecustomize.py is run at the start of every process
GENERIC_CACHE = ROOT / "build" / "numba-generic"

Job = TypeVar("Job")

# What a processor without AVX2 would make each library choose. glibc too has several forms of exp and log.
OLD_PROCESSOR = {
    "NUMBA_CPU_NAME": "generic",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "FAISS_OPT_LEVEL": "generic",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F,-AVX512VL,-AVX512DQ",
}

# Threads that wait sleep instead of spinning, since several processes share the cores.
PATIENT = {"OMP_WAIT_POLICY": "passive", "OPENBLAS_THREAD_TIMEOUT": "4"}

# Prints the BLAS kernels in use and the features that NumPy may be told to do without.
PROBE = """
import numpy, scipy.linalg, threadpoolctl
try:
    from numpy._core import _multiarray_umath as core
except ImportError:
    from numpy.core import _multiarray_umath as core
blas = {library.get("architecture", "") for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}
print(",".join(sorted(blas)))
print(" ".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)))
"""


@dataclass(frozen=True)
class MachineSetting:
    """Environment variables that stand for a machine.

    Parameters
    ----------
    name : str
    description : str
    processor : str
        Settings with the same value promise the same model bit for bit; others only the same rankings.
    variables : mapping of str to str
    threads : int or None
        Threads of every library; None leaves the choice to the machine.
    numba : bool
        Whether numba can be imported.
    """

    name: str
    description: str
    processor: str = "this"
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    threads: int | None = 1
    numba: bool = True


def environment(setting: MachineSetting) -> dict[str, str]:
    """The variables of a process with this setting: those of the present one, without any that settings change."""
    ours = {*THREAD_VARIABLES, *OLD_PROCESSOR, "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    threads = {} if setting.threads is None else dict.fromkeys(THREAD_VARIABLES, str(setting.threads))
    folders = [*([] if setting.numba else [str(HIDING_NUMBA)]), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return kept | PATIENT | threads | dict(setting.variables) | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}


@cache
def available_settings() -> dict[str, MachineSetting]:
    """The settings that this machine can stand for, by name, the plain one first."""
    plain = MachineSetting("default", "the threads and the processor of the machine", threads=None)
    kernels, features = _probe(plain)
    settings = [
        plain,
        MachineSetting("one-thread", "one thread in every library"),
        MachineSetting("three-threads", "three threads in every library", threads=3),
    ]
    if platform.machine().lower() in ("x86_64", "amd64"):
        # Kernels that the machine would not choose: Haswell's where it has AVX-512, otherwise those of 2008.
        other = "Nehalem" if kernels == "Haswell" else "Haswell"
        settings.append(
            MachineSetting(f"blas-{other.lower()}", f"BLAS kernels of {other}", other, {"OPENBLAS_CORETYPE": other})
        )
        old, old_kernels = "Sandybridge", {"OPENBLAS_CORETYPE": "Sandybridge"}
    else:
        old, old_kernels = "generic", {}
    without = {"NPY_DISABLE_CPU_FEATURES": features} if features else {}
    # Compiled loops for another processor are kept apart, so that neither cache can serve the other.
    cached = {"NUMBA_CACHE_DIR": str(GENERIC_CACHE)}
    settings += [
        MachineSetting(
            old.lower(),
            "an old processor, for BLAS, NumPy, numba, torch, faiss and libm",
            old,
            OLD_PROCESSOR | old_kernels | without | cached,
        ),
        MachineSetting("no-numba", "numba not installed", "without numba", numba=False),
    ]
    return {setting.name: setting for setting in settings}


def choose_settings(names: Iterable[str] | None) -> list[MachineSetting]:
    """Settings by name, all by default; one that is unknown or cannot run here ends the program with the reason."""
    known = available_settings()
    chosen = list(known if names is None else names)
    if unknown := [name for name in chosen if name not in known]:
        raise SystemExit(f"there is no setting {unknown[0]!r} on this machine; choose from {', '.join(known)}.")
    for name in chosen:
        _probe(known[name])
    return [known[name] for name in chosen]


def run_under(jobs: Sequence[tuple[MachineSetting, Job]], run: Callable[[MachineSetting, Job], None]) -> None:
    """Call ``run`` for every job, which starts a process and waits for it.

    Jobs of settings with several threads run one after another, the others as many at a time as there are cores.
    """
    for setting, job in jobs:
        if setting.threads != 1:
            run(setting, job)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    single = [(setting, job) for setting, job in jobs if setting.threads == 1]
    with ThreadPoolExecutor(cores) as pool:
        for finished in [pool.submit(run, setting, job) for setting, job in single]:
            finished.result()


@cache
def _probe(setting: MachineSetting) -> tuple[str, str]:
    """BLAS kernels and optional features of NumPy under a setting; a setting that cannot run here is an error."""
    answer = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment(setting), capture_output=True, text=True, check=False
    )
    if answer.returncode:
        reason = (answer.stderr.strip().splitlines() or [f"exit code {answer.returncode}"])[-1]
        raise SystemExit(f"setting {setting.name}: NumPy does not start: {reason}")
    kernels, features = answer.stdout.split("\n")[:2]
    wanted = setting.variables.get("OPENBLAS_CORETYPE")
    if wanted and kernels and wanted not in kernels.split(","):
        raise SystemExit(f"setting {setting.name}: BLAS uses the kernels {kernels} instead of {wanted}.")
    return kernels, features
