"""What the latents of a run are about: KL, and the information they share with factors."""

from __future__ import annotations

import numpy as np

from unweave.report.pictures.latents import NUM_IMAGES, Latents
from unweave.training import Run


def latent_facts(run: Run, *, num: int = NUM_IMAGES, seed: int = 0,
                 ) -> tuple[np.ndarray, np.ndarray]:
    """KL of each code in nats `[code]`, and its mutual information with each factor as a share of
    the factor's entropy `[code, factor]`, from `num` images of the run's data set. Where it has no
    factors, labels take their place; there are no columns where it has neither. A generator's codes
    have no KL: what made images tell of them takes its place.
    """
    latents = Latents(run, num=num, seed=seed)
    return latents.nats, latents.information
