"""Scores of candidates on a GPU: a program lays a row out as a dense vector and reads the weights of its candidates."""

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from pysldl.backend.torch.arrays import as_tensor, csr_on_device
from pysldl.backend.triton.squared_hinge import dense_vectors

BLOCK = 256


def score_candidates(X: Any, labels: NDArray[np.integer], W: Any, bias: NDArray[np.float32]) -> NDArray[np.float32]:
    candidates = as_tensor(labels, torch.int32)
    scores = torch.full(labels.shape, -torch.inf, device=candidates.device)
    if scores.numel():
        vectors = dense_vectors(len(labels), X.shape[1])
        _score[(len(vectors),)](
            *csr_on_device(X), candidates, *csr_on_device(W, keep=True), as_tensor(bias, torch.float32), scores,
            vectors, len(labels), labels.shape[1], X.shape[1], BLOCK, num_warps=4,
        )  # fmt: skip
    result: NDArray[np.float32] = scores.cpu().numpy()
    return result


@triton.jit
def _score(xp, xi, xd, labels, wp, wi, wd, bias, scores, vectors, n_rows, width, n_features, BLOCK: tl.constexpr):
    x = vectors + tl.program_id(0).to(tl.int64) * n_features
    lane = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        first = tl.load(xp + row)
        last = tl.load(xp + row + 1)
        for start in range(first, last, BLOCK):
            inside = start + lane < last
            column = tl.load(xi + start + lane, mask=inside, other=0)
            tl.store(x + column, tl.load(xd + start + lane, mask=inside, other=0.0), mask=inside)
        tl.debug_barrier()
        for slot in range(0, width):
            place = tl.cast(row, tl.int64) * width + slot
            label = tl.load(labels + place)
            if label >= 0:
                total = tl.zeros((BLOCK,), tl.float32)
                end = tl.load(wp + label + 1)
                for start in range(tl.load(wp + label), end, BLOCK):
                    inside = start + lane < end
                    column = tl.load(wi + start + lane, mask=inside, other=0)
                    value = tl.load(x + column, mask=inside, other=0.0)
                    total += value * tl.load(wd + start + lane, mask=inside, other=0.0)
                tl.store(scores + place, tl.sum(total) + tl.load(bias + label))
        tl.debug_barrier()
        for start in range(first, last, BLOCK):
            inside = start + lane < last
            column = tl.load(xi + start + lane, mask=inside, other=0)
            tl.store(x + column, tl.zeros((BLOCK,), tl.float32), mask=inside)
        tl.debug_barrier()
