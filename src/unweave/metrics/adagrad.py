"""A linear softmax classifier trained by Adagrad, a batch at a time, and stopped after some steps.

Kim & Mnih 2018, appendix B, on the classifier of the BetaVAE score: Adagrad (Duchi et al. 2011)
with learning rate 0.01, 10,000 iterations, 10 points each. It has not converged by then, so the
score depends on all of these: their figure 16 shows how much. What the text leaves open: weights
begin at 0, and the accumulators of squared gradients at 0.1, as TensorFlow's do.
"""

from __future__ import annotations

import numpy as np

from unweave.types import Float, Int, UserError

FIRST_SQUARES = 0.1


def fit_adagrad(features: np.ndarray, classes: Int[np.ndarray, " sample"], num_classes: int, *,
                learning_rate: float = 0.01, num_iterations: int = 10_000,
                batch_size: int = 10) -> Float[np.ndarray, "class column"]:
    """Weights and, in the last column, intercepts after so many steps.

    Batches are consecutive rows, and begin again with the first when there are no more: rows are
    taken to be in random order.
    """
    if not learning_rate > 0:
        raise UserError(f"learning_rate must be above 0, got {learning_rate}")
    if num_iterations < 1 or batch_size < 1:
        raise UserError("num_iterations and batch_size must be 1 at least, got "
                        f"{num_iterations} and {batch_size}")
    num = len(features)
    rows = np.column_stack([np.asarray(features, dtype=np.float64), np.ones(num)])
    # Batches that run past the end find the first rows there again.
    rows = np.concatenate([rows, rows[np.arange(batch_size) % num]])
    own = np.eye(num_classes)[np.concatenate([classes, classes[np.arange(batch_size) % num]])]
    weights = np.zeros((rows.shape[1], num_classes))
    squares = np.full_like(weights, FIRST_SQUARES)
    first = 0
    for _ in range(num_iterations):
        batch, target = rows[first:first + batch_size], own[first:first + batch_size]
        share = batch @ weights
        share -= share.max(axis=1, keepdims=True)
        np.exp(share, out=share)
        share /= share.sum(axis=1, keepdims=True)
        share -= target
        gradient = batch.T @ share
        gradient /= batch_size
        squares += gradient * gradient
        weights -= learning_rate * gradient / np.sqrt(squares)
        first = (first + batch_size) % num
    return np.ascontiguousarray(weights.T)
