"""Doctests of the modules: those that need a compiler for GPUs are left out where there is none."""

from importlib.util import find_spec

collect_ignore = ["conftest.py", *([] if find_spec("triton") else ["pysldl/baselines/paca/sigmoidal_gpu.py"])]
