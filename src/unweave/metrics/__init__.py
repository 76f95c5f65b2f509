"""Metrics: pure functions of codes and factors, and scores that say how they came about.

`score(codes, factors)` takes plain arrays. `score_dataset(encode, space)` draws from a data set,
encodes once what all metrics need, and scores; `plan_scores` does the first half for many runs.
`METRICS` holds what each metric declares: draw, keys, ranges, directions, paper, conventions.
"""

from unweave.metrics.beta_vae import beta_vae
from unweave.metrics.dci import dci
from unweave.metrics.explicitness import explicitness
from unweave.metrics.factor_vae import factor_vae
from unweave.metrics.mig import mig
from unweave.metrics.record import CONVENTIONS, Key, Metric, Score
from unweave.metrics.registry import METRICS
from unweave.metrics.sampling import Draw
from unweave.metrics.scoring import Plan, plan_scores, score, score_dataset, score_records

__all__ = [
    "CONVENTIONS",
    "METRICS",
    "Draw",
    "Key",
    "Metric",
    "Plan",
    "Score",
    "beta_vae",
    "dci",
    "explicitness",
    "factor_vae",
    "mig",
    "plan_scores",
    "score",
    "score_dataset",
    "score_records",
]
