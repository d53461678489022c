"""
Learn a new label
=================

A model fitted with ``online=True`` learns further rows, and labels it has never seen, without a new fit.
"""

import matplotlib.pyplot as plt

from pysldl import make_sldl
from pysldl.datasets import make_asymmetric_multilabel

data = make_asymmetric_multilabel(n_samples=600, n_features=200, n_labels=25, random_state=0)
words, names = data.feature_names, data.label_names
texts = [" ".join(words[data.X[[row]].indices]) for row in range(data.n_samples)]
labels = [[names[label] for label in data.Y[[row]].indices] for row in range(data.n_samples)]
model = make_sldl("fast", random_state=0).set_params(online=True).fit(texts, labels)

rank = []
for step in range(1, 6):
    model.partial_fit([f"a green parrot number {step} on a branch"], [["parrot", "bird"]])
    found = model.predict_topk(["a parrot in a tree"], k=10, names=True)[0][0].tolist()
    rank.append(found.index("parrot") + 1 if "parrot" in found else 11)

figure, axis = plt.subplots(figsize=(5, 3), layout="constrained")
axis.plot(range(1, 6), rank, "o-")
axis.invert_yaxis()
axis.set(xlabel="rows with the new label", ylabel="its rank for a new text", xticks=range(1, 6))
plt.show()
