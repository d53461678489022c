"""Where each system lives, and what is installed there."""

import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDER", "OWN", "PEERS", "Peer", "python_of"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".peers"


@dataclass(frozen=True)
class Peer:
    """A peer's environment.

    Parameters
    ----------
    package : str
        The peer and its version.
    needs : tuple of str
        What it needs to train and predict.
    all_dependencies : bool
        False: do not install what the package declares. PECOS asks for torch and transformers, of which
        its linear models use nothing.
    """

    package: str
    needs: tuple[str, ...]
    all_dependencies: bool = True

    def python(self, name: str) -> Path:
        """The interpreter of the environment called ``name``."""
        return FOLDER / name / "bin" / "python"


PEERS = {
    "omikuji": Peer("omikuji==0.5.2", ("numpy==2.4.6", "scipy==1.17.1")),
    "napkinxc": Peer("napkinxc==0.7.2", ("numpy==2.4.6", "scipy==1.17.1")),
    "pecos": Peer("libpecos==1.2.8", ("numpy==1.26.4", "scipy==1.13.1", "scikit-learn==1.6.1"), all_dependencies=False),
}
# This library has an environment of its own, too: in that of the tests, scikit-learn imports pandas for nothing.
OWN = "pysldl"


def python_of(system: str) -> Path:
    """The interpreter that runs a peer, or, for a preset, this library where it is installed alone, else this one."""
    if system in PEERS:
        return PEERS[system].python(system)
    alone = FOLDER / OWN / "bin" / "python"
    return alone if alone.exists() else Path(sys.executable)
