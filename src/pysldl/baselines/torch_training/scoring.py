"""How good scores are on validation rows: what decides which epoch of a network is kept.

A measure takes scores and labels of a block of rows, Tensors of shape (n_rows, n_labels), and gives one row of
numbers for each, in float64. It runs where they are, so that a GPU need not wait for the host in every epoch.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# Scores that are measured at once on a CPU. A measure holds up to 50 bytes for each of them.
BLOCK_ON_CPU = 1 << 18


def score_in_blocks(measure: Callable[[Tensor, Tensor], Tensor], scores: Tensor, y: Tensor) -> Tensor:
    """``measure(scores, y)``, on a CPU of some rows at a time: its memory does not follow the number of labels."""
    if scores.is_cuda:
        return measure(scores, y)
    n_rows = max(1, BLOCK_ON_CPU // max(scores.shape[1], 1))
    return torch.cat([measure(*block) for block in zip(scores.split(n_rows), y.split(n_rows), strict=True)])


def precision_at_1(scores: Tensor, y: Tensor) -> Tensor:
    """Whether the best label is a true one; ties are broken by the DCG@5. Of shape (n_rows, 2).

    A score of -inf is of a label that cannot be chosen.
    """
    best, labels = scores.topk(min(5, y.shape[1]), dim=1)
    hits = (y.gather(1, labels) * ~torch.isneginf(best)).double()
    discounts = torch.arange(2, labels.shape[1] + 2, device=y.device, dtype=torch.float64).log2().reciprocal()
    return torch.stack([hits[:, 0], hits @ discounts], dim=1)


def average_precision(scores: Tensor, y: Tensor) -> Tensor:
    """Average precision of the ranking of every row, of shape (n_rows, 1); 0 for a row without labels."""
    hits = y.gather(1, scores.sort(dim=1, descending=True, stable=True).indices).double()
    ranks = torch.arange(1, y.shape[1] + 1, device=y.device, dtype=torch.float64)
    precisions = (hits * hits.cumsum(dim=1) / ranks).sum(dim=1, keepdim=True)
    return precisions / hits.sum(dim=1, keepdim=True).clamp_min(1.0)


def hamming_score(scores: Tensor, y: Tensor) -> Tensor:
    """Share of the labels of a row whose logit has the right sign (1 - Hamming loss), of shape (n_rows, 1)."""
    return ((scores > 0) == (y > 0)).double().mean(dim=1, keepdim=True)


SCORERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "P@1": precision_at_1,
    "AP": average_precision,
    "hamming": hamming_score,
}
