"""Parameters sections completed by the entries of base classes."""

from dataclasses import KW_ONLY, dataclass

from pysldl._utils.light_estimator import inherit_parameters, parameter_entries


@dataclass(kw_only=True)
class Base:
    """A base.

    Parameters
    ----------
    rate : float, default=0.1
        How fast.
    name : str, default="base"
        What it is called.

    Notes
    -----
    Nothing.
    """

    rate: float = 0.1
    name: str = "base"


@inherit_parameters
@dataclass
class Derived(Base):
    """A class that adds two parameters and changes a default.

    Parameters
    ----------
    width, height : int, default=1
        Its size.

    Examples
    --------
    >>> 1 + 1
    2
    """

    width: int = 1
    height: int = 1
    _: KW_ONLY
    name: str = "derived"


def test_entries_by_name() -> None:
    entries = parameter_entries(Base.__doc__ or "")
    assert list(entries) == ["rate", "name"]
    assert entries["rate"] == "rate : float, default=0.1\n    How fast."


def test_inherited_entries_follow_the_constructor_with_the_defaults_of_the_class() -> None:
    assert list(parameter_entries(Derived.__doc__ or "")) == ["width", "height", "rate", "name"]
    assert parameter_entries(Derived.__doc__ or "")["name"] == 'name : str, default="derived"\n    What it is called.'
    assert (Derived.__doc__ or "").count("width, height : int") == 1
    assert (Derived.__doc__ or "").endswith("Examples\n--------\n>>> 1 + 1\n2")


def test_a_class_without_docstring_stays_without() -> None:
    class Silent(Base):
        pass

    Silent.__doc__ = None
    assert inherit_parameters(Silent).__doc__ is None
