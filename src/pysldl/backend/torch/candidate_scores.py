"""Scores of candidates on the device: a block of dense rows, and the weights of their labels one after the other."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pysldl.backend.torch.arrays import as_csr, as_tensor, csr_on_device, ranges, segment_sums

VALUES_AT_ONCE = 1 << 26


def score_candidates(X: Any, labels: NDArray[np.integer], W: Any, bias: NDArray[np.float32]) -> NDArray[np.float32]:
    (starts, columns, values), biases = csr_on_device(W, keep=True), as_tensor(bias, torch.float32)
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    block = max(1, VALUES_AT_ONCE // max(X.shape[1], labels.shape[1] * max(1, W.nnz // max(W.shape[0], 1))))
    for start in range(0, len(labels), block):
        rows = slice(start, start + block)
        x = as_csr(X[rows]).to_dense()
        row, slot = np.nonzero(labels[rows] >= 0)
        label = as_tensor(labels[rows][row, slot], torch.int64)
        sizes = starts[label + 1] - starts[label]
        places = ranges(starts[label], sizes)
        own = torch.repeat_interleave(as_tensor(row, torch.int64), sizes)
        total = segment_sums(x[own, columns[places]] * values[places], sizes) + biases[label]
        scores[rows][row, slot] = total.cpu().numpy()
    return scores
