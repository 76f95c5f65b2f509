"""Correlation tables as records: a row for each latent, and a row for each factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unweave.metrics.correlation import Correlations, followers

MOST_OTHERS = 4
"""How many other factors of a latent are named, as in figure 2 of Kumar et al. 2018."""


def correlation_records(table: Correlations, names: Sequence[str],
                        ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records of the latents (with factors, with latents) and of the factors (who follows them).

    A latent's record has a column for each factor and each latent, for tables, and the same as
    `factors` and `latents`, for machines.
    """
    latents = []
    titles = [f"z{j}" for j in range(len(table.latents))]
    for title, with_factors, with_latents in zip(titles, table.factors, table.latents):
        first = dict(zip(names, map(float, with_factors)))
        second = dict(zip(titles, map(float, with_latents)))
        latents.append({"table": "latents", "name": title, **first, **second,
                        "factors": first, "latents": second})
    found = followers(table)
    factors = []
    for k, name in enumerate(names):
        own = found.correlation[k]
        order = [other for other in np.argsort(-np.abs(own), kind="stable") if other != k]
        others = {names[other]: round(float(own[other]), 3) for other in order[:MOST_OTHERS]}
        factors.append({"table": "factors", "name": name, "latent": titles[found.latent[k]],
                        "correlation": float(own[k]), "others": others})
    return latents, factors
