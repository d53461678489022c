"""
The paper's method by hand
==========================

Its three stages, one after the other, without the classifier that joins them.
"""

import numpy as np

from pysldl import evaluate, make_sldl
from pysldl.datasets import make_asymmetric_multilabel
from pysldl.decoding import NeighborDecoder
from pysldl.embedding import GaussianLabelEmbedding
from pysldl.mapping import RidgeMapping

data = make_asymmetric_multilabel(600, 80, 20, random_state=0)
X = data.X.toarray()
X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)  # rows of length 1
train, test = data.splits["train"], data.splits["test"]

# Stage 1: every label becomes a Gaussian, placed by the divergences between labels (Eqs. 1 to 10).
embedding = GaussianLabelEmbedding(n_components=16, margin=0.1, cooccurrence="binary", n_steps=100, random_state=0)
codes = embedding.fit_transform(data.Y[train])  # of a row: the sum of the means of its labels
# Stage 2: ridge regression maps features to codes (Eqs. 11 to 17).
mapping = RidgeMapping(alpha=1.0).fit(X[train], codes)
# Stage 3: new rows are mapped (Eq. 18), and their nearest training rows vote for their labels (Eqs. 19 and 20).
decoder = NeighborDecoder(n_neighbors=10, normalize=False).fit(mapping.predict(X[train]), data.Y[train])
scores = decoder.scores(mapping.predict(X[test]))

by_hand = evaluate(data.Y[test], scores, ks=(1, 3))
print({name: round(value, 3) for name, value in by_hand.items()})

# The preset "paper" is the same, in one object.
clf = make_sldl("paper", decoder__n_neighbors=10, calibrate=False)
clf.set_params(embedding=embedding).fit(data.X[train], data.Y[train])
assert evaluate(data.Y[test], clf.predict_scores(data.X[test]), ks=(1, 3)) == by_hand
