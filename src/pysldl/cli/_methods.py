"""The classifiers that ``sldl fit`` makes by name: presets of SLDL, the comparing methods and the controls."""

from typing import Any

from pysldl._utils.suggestions import did_you_mean
from pysldl.exceptions import DataError

__all__ = ["make_method"]


def make_method(name: str, usual: dict[str, Any]) -> Any:
    """A classifier by the name of a preset, of a comparing method in the paper, or of a control.

    Parameters
    ----------
    name : str
    usual : dict
        Parameters to set where the classifier has them.
    """
    from pysldl.baselines import BASELINES, CONTROLS
    from pysldl.estimator.presets import PRESETS, make_sldl

    if name in PRESETS:
        return make_sldl(name, **usual)
    methods = BASELINES | CONTROLS
    if name not in methods:
        known = (*PRESETS, *methods)
        all_names = (
            f"SLDL: {', '.join(PRESETS)}; comparing methods: {', '.join(BASELINES)}; controls: {', '.join(CONTROLS)}."
        )
        raise DataError(f"--preset: there is no {name!r}; {did_you_mean(name, known) or all_names}")
    classifier = methods[name]()
    present = classifier.get_params()
    return classifier.set_params(**{key: value for key, value in usual.items() if key in present})
