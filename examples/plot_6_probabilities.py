"""
Are the probabilities right?
============================

``predict_proba`` is calibrated on rows held out from training. Of the labels that get a probability of 0.7, about 70 %
should be right, on rows that were never seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel

data = make_asymmetric_multilabel(n_samples=3000, random_state=0).tfidf()
train, test = data.split("train"), data.split("test")
model = make_sldl("accurate", random_state=0).fit(train.X, train.Y)
probabilities = model.predict_proba(test.X, top=30).tocoo()
right = np.asarray(test.Y.tocsr()[probabilities.row, probabilities.col]).ravel() > 0

edges = np.linspace(0, 1, 11)
group = np.clip(np.digitize(probabilities.data, edges) - 1, 0, 9)
counts = np.bincount(group, minlength=10)
share = np.bincount(group, right, minlength=10) / np.maximum(counts, 1)

figure, axis = plt.subplots(figsize=(5, 4.5), layout="constrained")
axis.plot([0, 1], [0, 1], color="gray", linewidth=1)
shown = counts > 20
axis.plot((edges[:-1] + edges[1:])[shown] / 2, share[shown], "o-")
axis.set(xlabel="probability", ylabel="share of these labels that are right", xlim=(0, 1), ylim=(0, 1), aspect="equal")
plt.show()
