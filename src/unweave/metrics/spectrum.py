"""Eigenvalues of a Gram matrix, computed on whichever side of the table is smaller."""

from __future__ import annotations

import numpy as np

from unweave.types import Float


def gram_eigenvalues(table: Float[np.ndarray, "sample latent"]) -> Float[np.ndarray, " latent"]:
    """Eigenvalues of X^T X for a table X, none below 0, in rising order.

    Those of X X^T are the same but for zeros: with more latents than rows that smaller matrix does,
    and ten thousand latents of a few hundred rows take no time.
    """
    num_rows, num_latents = table.shape
    if num_latents <= num_rows:
        return np.maximum(np.linalg.eigvalsh(table.T @ table), 0.0)
    values = np.maximum(np.linalg.eigvalsh(table @ table.T), 0.0)
    return np.concatenate([np.zeros(num_latents - num_rows), values])
