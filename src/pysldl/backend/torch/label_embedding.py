"""The hinge over consecutive labels on the device."""

import torch
from torch import Tensor


def ranking_hinge(
    D: Tensor, ranking: Tensor, margin: float, sign: int = 1, *, offset: Tensor | None = None, out: Tensor | None = None
) -> tuple[float, Tensor]:
    order = ranking.to(torch.int64)
    ranked = torch.gather(D, 1, order)
    if offset is not None:
        ranked += offset[order]
    violation = (sign * (ranked[:, :-1] - ranked[:, 1:]) + margin).clamp_min(0)
    active = torch.nn.functional.pad((violation > 0).to(D.dtype), (1, 1))
    G = torch.zeros_like(D) if out is None else out
    G.scatter_(1, order, sign * (active[:, 1:] - active[:, :-1]))
    return float(violation.sum()), G
