"""Doctests of the modules: those that need PyTorch, Triton or Annif are left out where there is none."""

from importlib.util import find_spec

collect_ignore = ["conftest.py"]
if find_spec("annif") is None or find_spec("annif.backend") is None:  # the tests have a folder of that name
    collect_ignore += ["pysldl/annif/backend.py"]
if find_spec("triton") is None:
    collect_ignore += ["pysldl/backend/triton"]
if find_spec("torch") is None:
    neural = ("clif", "dela", "dxml", "flem", "kdtea", "paca", "reweighted")
    collect_ignore += ["pysldl/baselines/torch_training", *(f"pysldl/baselines/{name}.py" for name in neural)]
