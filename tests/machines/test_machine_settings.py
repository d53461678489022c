"""The settings are what they say: in a process of each, libraries have the threads and the processor named."""

import json
import os
import subprocess
import sys

import pytest

REPORT = """
import json, os
import numpy, scipy.linalg, threadpoolctl
try:
    import numba
    from numba.core.registry import cpu_target
    found = {"numba": numba.get_num_threads(), "cpu": cpu_target.target_context.codegen().magic_tuple()[1]}
except ImportError:
    found = {"numba": None, "cpu": None}
blas = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
found["blas threads"] = max(library["num_threads"] for library in blas)
found["kernels"] = sorted({library.get("architecture") for library in blas})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def reports(scripts):
    """What a process under each setting says of itself."""
    settings = scripts.machine_settings.available_settings()
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-c", REPORT], env=scripts.machine_settings.environment(setting), stdout=subprocess.PIPE
        )
        for name, setting in settings.items()
    }
    return {name: json.loads(process.communicate()[0]) for name, process in processes.items()}


def test_there_are_at_least_five(scripts):
    settings = scripts.machine_settings.available_settings()
    assert len(settings) >= 5
    assert next(iter(settings)) == "default"
    assert len({setting.processor for setting in settings.values()}) >= 3


def test_threads(reports):
    assert reports["one-thread"]["blas threads"] == 1
    assert reports["one-thread"]["numba"] in (1, None)
    assert reports["three-threads"]["blas threads"] == min(3, os.cpu_count())  # OpenBLAS takes no more than the cores
    assert reports["three-threads"]["numba"] in (3, None)


def test_processors(scripts, reports):
    for name, setting in scripts.machine_settings.available_settings().items():
        if kernels := setting.variables.get("OPENBLAS_CORETYPE"):
            assert reports[name]["kernels"] == [kernels]
            assert reports["default"]["kernels"] != [kernels]


def test_loops_compiled_for_another_processor_have_a_cache_of_their_own(scripts, reports):
    settings = scripts.machine_settings.available_settings()
    caches = {}
    for name, report in reports.items():
        cache = scripts.machine_settings.environment(settings[name]).get("NUMBA_CACHE_DIR")
        caches.setdefault(cache, set()).add(report["cpu"])
    assert all(len(processors - {None}) == 1 for processors in caches.values())


def test_numba_can_be_hidden(reports):
    pytest.importorskip("numba", reason="numba is not installed, so there is nothing to hide")
    assert reports["no-numba"]["numba"] is None
    assert reports["default"]["numba"] is not None


def test_variables_of_the_caller_do_not_leak(scripts, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")
    settings = scripts.machine_settings.available_settings()
    plain = scripts.machine_settings.environment(settings["default"])
    assert not {"OMP_NUM_THREADS", "OPENBLAS_CORETYPE"} & plain.keys()


def test_an_unknown_setting_is_refused_with_the_known_ones(scripts):
    with pytest.raises(SystemExit, match="there is no setting 'pentium' on this machine; choose from default"):
        scripts.machine_settings.choose_settings(["pentium"])
