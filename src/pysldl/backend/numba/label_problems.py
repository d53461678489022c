"""Two passes over the candidates: one counts the rows of every label, one writes them."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def group_rows_by_label(candidates, everywhere, late, yp, yi, n_labels, kept):
    n_samples, m = candidates.shape
    n_early = m + len(everywhere)
    indptr = np.zeros(n_labels + 1, np.int64)
    place = np.zeros(0, np.int64)
    rows, is_late = np.zeros(0, np.int32), np.zeros(0, np.bool_)
    seen = np.empty(n_labels, np.int32)  # the last row that met the label
    for counting in (True, False):
        seen[:] = -1
        for row in range(n_samples):
            if not kept[row]:
                continue
            for at in range(yp[row], yp[row + 1]):
                label = yi[at]
                seen[label] = row
                if counting:
                    indptr[label + 1] += 1
                else:
                    rows[place[label]] = row
                    place[label] += 1
            for slot in range(n_early + late.shape[1]):
                if slot < m:
                    label = candidates[row, slot]
                elif slot < n_early:
                    label = everywhere[slot - m]
                else:
                    label = late[row, slot - n_early]
                if label < 0 or seen[label] == row:
                    continue
                seen[label] = row
                if counting:
                    indptr[label + 1] += 1
                else:
                    rows[place[label]] = ~row
                    is_late[place[label]] = slot >= n_early
                    place[label] += 1
        if counting:
            indptr = np.cumsum(indptr)
            place = indptr[:-1].copy()
            rows, is_late = np.empty(indptr[-1], np.int32), np.zeros(indptr[-1], np.bool_)
    return indptr, rows, is_late
