"""Doctests of the modules: those that need PyTorch are left out where there is none."""

from importlib.util import find_spec

collect_ignore = ["conftest.py"]
if find_spec("torch") is None:
    neural = ("clif", "dela", "dxml", "flem", "kdtea", "paca", "reweighted")
    collect_ignore += ["pysldl/baselines/torch_training", *(f"pysldl/baselines/{name}.py" for name in neural)]
