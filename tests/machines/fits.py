"""Fits whose results are compared between settings of the machine, and the program that makes their fingerprints.

Presets are fitted with their own widths and numbers of steps, since differences grow with the steps. Only baselines
that train for long are given fewer epochs.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from fingerprints import fingerprint, write_fingerprint
from pysldl import SLDLClassifier, make_sldl
from pysldl.baselines import BASELINES, CONTROLS
from pysldl.datasets import SyntheticDataset, make_asymmetric_multilabel
from pysldl.decoding import FeatureNeighborDecoder, JointNeighborDecoder, LinearReadout, NeighborDecoder
from pysldl.embedding import (
    GaussianLabelEmbedding,
    IdentityLabelEmbedding,
    RandomLabelEmbedding,
    SVDLabelEmbedding,
    VectorLabelEmbedding,
)
from pysldl.estimator.presets import PRESETS
from pysldl.exceptions import MissingDependencyError, SLDLWarning
from pysldl.mapping import RidgeMapping
from pysldl.ranking import LinearRanker

__all__ = ["BASELINE_FITS", "FITS"]


def _latent(embedding: Any = None, mapping: Any = None, decoder: Any = None, ranker: Any = None) -> SLDLClassifier:
    return SLDLClassifier(
        embedding or RandomLabelEmbedding(),
        mapping or RidgeMapping(),
        decoder or NeighborDecoder(),
        ranker,
        random_state=0,
    )


SLDL_FITS: dict[str, Callable[[], Any]] = {
    **{preset: (lambda preset=preset: make_sldl(preset)) for preset in PRESETS},
    "accurate, large": lambda: make_sldl("accurate", decoder__most_features=0, ranker__most_features=0),
    "Gaussians, JS": lambda: _latent(GaussianLabelEmbedding(divergence="js")),
    "Gaussians, sparse": lambda: _latent(GaussianLabelEmbedding(32, graph="sparse", n_walk_labels=32)),
    "vectors": lambda: _latent(VectorLabelEmbedding(directed=False)),
    "vectors, directed": lambda: _latent(VectorLabelEmbedding(directed=True)),
    "SVD": lambda: _latent(SVDLabelEmbedding()),
    "identity": lambda: _latent(IdentityLabelEmbedding()),
    "ridge, Cholesky": lambda: _latent(mapping=RidgeMapping(solver="cholesky", fit_intercept=True)),
    "ridge, CG": lambda: _latent(mapping=RidgeMapping(solver="cg")),
    "ridge, CG early": lambda: _latent(mapping=RidgeMapping(solver="cg", early_stopping=True)),
    "ridge, L-BFGS": lambda: _latent(mapping=RidgeMapping(solver="lbfgs")),
    "read-out": lambda: _latent(decoder=LinearReadout()),
    "joint, ranker": lambda: _latent(decoder=JointNeighborDecoder(), ranker=LinearRanker(20)),
    "features, ranker": lambda: _latent(decoder=FeatureNeighborDecoder(), ranker=LinearRanker(20)),
}

# Epochs of those that train for minutes by default.
EPOCHS = {"DXML": 5, "PACA": 2, "FLEM": 5, "DELA": 3, "CLIF": 3, "KD-TEA": 3}


def _baseline(name: str) -> Any:
    shorter = {"epochs": EPOCHS[name]} if name in EPOCHS else {}
    return {**BASELINES, **CONTROLS}[name](**shorter)


BASELINE_FITS: dict[str, Callable[[], Any]] = {
    name: (lambda name=name: _baseline(name)) for name in (*CONTROLS, *BASELINES)
}

FITS = SLDL_FITS | BASELINE_FITS


@cache
def _data(small: bool) -> SyntheticDataset:
    """Half of the rows are for testing, so that one of a thousand is a row or more."""
    if small:
        return make_asymmetric_multilabel(600, 160, 40, test_size=0.5, random_state=0)
    return make_asymmetric_multilabel(3000, test_size=0.5, random_state=0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits every method and writes its fingerprint to FOLDER.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fits", nargs="+", default=list(FITS), metavar="NAME", help=", ".join(FITS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("error")
    for category in (SLDLWarning, *_allowed_warnings()):
        warnings.simplefilter("ignore", category)
    for name in options.fits:
        data = _data(small=name in BASELINE_FITS)
        train, test = data.splits["train"], data.splits["test"]
        try:
            model = FITS[name]()
        except MissingDependencyError as missing:
            print(f"{name}: left out, {missing}", flush=True)
            continue
        start = process_time()
        model.fit(data.X[train], data.Y[train])
        found = fingerprint(model, data.X[test], data.Y[test], data.Y[train])
        write_fingerprint(options.folder / f"{list(FITS).index(name):02d}.json", found)
        print(f"{name}: {process_time() - start:.1f} s of a core", flush=True)


def _allowed_warnings() -> tuple[type[Warning], ...]:
    from sklearn.exceptions import ConvergenceWarning

    return (ConvergenceWarning,)


if __name__ == "__main__":
    main()
