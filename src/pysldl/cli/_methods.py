"""The classifiers that ``sldl fit`` makes by name, from the one table of methods."""

from typing import Any

from pysldl._utils.suggestions import did_you_mean
from pysldl.exceptions import DataError

__all__ = ["make_method"]


def make_method(name: str, usual: dict[str, Any]) -> Any:
    """A classifier by the name of a preset, or of any other method of the library.

    Parameters
    ----------
    name : str
    usual : dict
        Parameters to set where the classifier has them.
    """
    from pysldl.baselines.registry import BASELINES, CONTROLS, METHODS, PRESET_METHODS

    known = {**METHODS, **PRESET_METHODS}
    if name not in known:
        all_names = (
            f"SLDL: {', '.join(PRESET_METHODS)}; baselines: {', '.join(BASELINES)}; controls: {', '.join(CONTROLS)}."
        )
        raise DataError(f"--preset: there is no {name!r}; {did_you_mean(name, list(known)) or all_names}")
    classifier = known[name]()
    present = classifier.get_params()
    return classifier.set_params(**{key: value for key, value in usual.items() if key in present})
