"""Metrics: pure functions of codes and factors, and scores that say how they came about.

`score(codes, factors)` takes plain arrays. `score_dataset(encode, space)` draws from a data set,
encodes once what all metrics need, and scores; `plan_scores` does the first half for many runs.
`METRICS` holds what each metric declares: draw, keys, ranges, directions, paper, conventions;
`ACROSS_RUNS` those that compare several runs.
"""

from unweave.metrics.across import ACROSS_RUNS, udr_records
from unweave.metrics.attributes import attribute_table, attributes
from unweave.metrics.beta_vae import beta_vae
from unweave.metrics.correlation import correlation, correlations, followers
from unweave.metrics.dci import dci
from unweave.metrics.dci_es import dci_es
from unweave.metrics.dcimig import dcimig
from unweave.metrics.downstream import downstream
from unweave.metrics.elbo import elbo
from unweave.metrics.encoding import Encoding
from unweave.metrics.entangle import entangle
from unweave.metrics.explicitness import explicitness
from unweave.metrics.factor_vae import factor_vae
from unweave.metrics.infomec import infomec
from unweave.metrics.irs import irs
from unweave.metrics.iwae import iwae
from unweave.metrics.jemmig import jemmig
from unweave.metrics.kl_decomposition import kl_decomposition
from unweave.metrics.mig import mig
from unweave.metrics.mig_sup import mig_sup
from unweave.metrics.modularity import modularity
from unweave.metrics.mutual_info_score import mutual_info_score
from unweave.metrics.path_length import path_length
from unweave.metrics.record import CONVENTIONS, Key, Metric, Score, Scores
from unweave.metrics.registry import METRICS
from unweave.metrics.sampling import Draw
from unweave.metrics.sap import sap
from unweave.metrics.scoring import Plan, plan_scores, score, score_dataset, score_records
from unweave.metrics.stacks import score_stack
from unweave.metrics.tc import tc
from unweave.metrics.udr import udr
from unweave.metrics.wasserstein import wasserstein

__all__ = [
    "ACROSS_RUNS",
    "CONVENTIONS",
    "METRICS",
    "Draw",
    "Encoding",
    "Key",
    "Metric",
    "Plan",
    "Score",
    "Scores",
    "attribute_table",
    "attributes",
    "beta_vae",
    "correlation",
    "correlations",
    "dci",
    "dci_es",
    "dcimig",
    "downstream",
    "elbo",
    "entangle",
    "explicitness",
    "factor_vae",
    "followers",
    "infomec",
    "irs",
    "iwae",
    "jemmig",
    "kl_decomposition",
    "mig",
    "mig_sup",
    "modularity",
    "mutual_info_score",
    "path_length",
    "plan_scores",
    "sap",
    "score",
    "score_dataset",
    "score_records",
    "score_stack",
    "tc",
    "udr",
    "udr_records",
    "wasserstein",
]
