"""
Compare presets with controls
=============================

Every claim about a method needs a simple method beside it. Here the presets stand beside the most frequent labels,
plain neighbors and ridge regression, on rows that none of them has seen.
"""

import matplotlib.pyplot as plt

from pysldl import evaluate, make_sldl
from pysldl.baselines import FeatureNeighbors, LabelPrior, RidgeReadout
from pysldl.datasets import make_asymmetric_multilabel

data = make_asymmetric_multilabel(random_state=0).tfidf()
train, test = data.split("train"), data.split("test")
methods = {
    "most frequent": LabelPrior(),
    "neighbors": FeatureNeighbors(),
    "ridge": RidgeReadout(),
    "paper": make_sldl("paper", random_state=0),
    "blend": make_sldl("blend", random_state=0),
    "fast": make_sldl("fast", random_state=0),
    "accurate": make_sldl("accurate", random_state=0),
}
figures = {}
for name, method in methods.items():
    labels, _ = method.fit(train.X, train.Y).predict_topk(test.X, k=5)
    figures[name] = evaluate(test.Y, labels, ks=(1, 3, 5))

figure, axis = plt.subplots(figsize=(8, 3.5), layout="constrained")
for metric, marker in (("P@1", "o"), ("P@3", "s"), ("P@5", "^"), ("nDCG@5", "D")):
    axis.plot(list(figures), [told[metric] for told in figures.values()], marker, label=metric)
axis.set(ylim=(0, 1), title="test rows")
axis.grid(axis="y", alpha=0.3)
axis.legend(ncols=4)
plt.show()
