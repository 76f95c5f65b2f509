"""Pictures of runs: everything that the papers show of one, by name.

>>> from unweave import picture
>>> picture(run, "traversals").save("traversals.png")   # doctest: +SKIP

In a notebook a picture as the last line of a cell shows itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unweave.report.pictures import curves, matrices, motion, responses, sheets
from unweave.report.pictures.latents import Latents
from unweave.report.pictures.picture import (
    Chart,
    Motion,
    NoCharts,
    NoPicture,
    Picture,
    Sheet,
)
from unweave.training import Run
from unweave.types import unknown_name


@dataclass(frozen=True)
class Kind:
    """A picture by name: how it is made, and whether `unweave show RUN` draws it unasked."""

    make: Callable[..., Picture]
    summary: str
    source: str
    usual: bool = True
    of_curves: bool = False
    """Needs the curves of a run only, not its model."""


PICTURES: Mapping[str, Kind] = {
    "traversals": Kind(sheets.traversals, "each latent moved, sorted by KL, with its factor",
                       "Kaddah 2020, appendix A"),
    "reconstructions": Kind(sheets.reconstructions,
                            "originals, reconstructions, traversals around the first",
                            "Kim & Mnih 2018, figure 6"),
    "samples": Kind(sheets.samples, "images decoded from draws of the prior",
                    "Kim & Mnih 2018, appendix E"),
    "kl": Kind(curves.kl, "the KL of each latent during training", "Kaddah 2020, appendix A",
               of_curves=True),
    "losses": Kind(curves.losses, "every term of the objective during training",
                   "Kaddah 2020, appendix A", of_curves=True),
    "histograms": Kind(responses.histograms, "draws of q(z) for each latent, over the prior",
                       "Kim & Mnih 2018, figure 40"),
    "correlations": Kind(matrices.correlations,
                         "correlations of latents with factors and with each other",
                         "Kumar et al. 2018, tables 3 and 4", usual=False),
    "information": Kind(matrices.information,
                        "information that latents share with factors and with each other",
                        "Chen et al. 2018, section 4"),
    "responses": Kind(responses.responses, "mean codes over positions and along other factors",
                      "Burgess et al. 2018"),
    "importances": Kind(matrices.importances, "importances behind DCI, as a Hinton diagram",
                        "Eastwood & Williams 2018", usual=False),
    "categories": Kind(sheets.categories, "classes of categorical latents, decoded and given",
                       "Dupont 2018"),
    "clusters": Kind(sheets.clusters, "draws and members of each cluster", "Jiang et al. 2017"),
    "noise": Kind(sheets.noise, "codes of images decoded with other noise",
                  "Kim & Mnih 2018, figure 26"),
    "seeds": Kind(sheets.seeds, "traversals of several runs below each other",
                  "Kim & Mnih 2018, figures 25 and 36", usual=False),
    "motion": Kind(motion.motion, "every latent in use, moving", "unweave", usual=False),
}
"""By name, in the order in which they are drawn."""


def picture(run: Run, what: str, *, latents: Latents | None = None, seed: int = 0,
            **options: Any) -> Picture:
    """A picture of a run; `options` are those of its function, as `span` of `traversals`.

    `latents` lets several pictures share one pass of the encoder. NoPicture, which is a UserError,
    says why a run cannot have one.
    """
    if what not in PICTURES:
        raise unknown_name("picture", what, PICTURES)
    kind = PICTURES[what]
    if kind.of_curves:
        return kind.make(run)
    return kind.make(latents or Latents(run, seed=seed), **options)


def options_of(what: str) -> set[str]:
    """Names of the options that a picture takes."""
    return {name for name, parameter in inspect.signature(PICTURES[what].make).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY}


__all__ = ["PICTURES", "Chart", "Kind", "Latents", "Motion", "NoCharts", "NoPicture", "Picture",
           "Sheet", "options_of", "picture"]
