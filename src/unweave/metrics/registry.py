"""Every metric by name. To add one: a file that ends with `METRIC = Metric(...)`, a line here."""

from __future__ import annotations

from unweave.metrics.attributes import METRIC as ATTRIBUTES
from unweave.metrics.beta_vae import METRIC as BETA_VAE
from unweave.metrics.correlation import METRIC as CORRELATION
from unweave.metrics.dci import METRIC as DCI
from unweave.metrics.dci_es import METRIC as DCI_ES
from unweave.metrics.dcimig import METRIC as DCIMIG
from unweave.metrics.downstream import METRIC as DOWNSTREAM
from unweave.metrics.elbo import METRIC as ELBO
from unweave.metrics.explicitness import METRIC as EXPLICITNESS
from unweave.metrics.factor_vae import METRIC as FACTOR_VAE
from unweave.metrics.infomec import METRIC as INFOMEC
from unweave.metrics.irs import METRIC as IRS
from unweave.metrics.iwae import METRIC as IWAE
from unweave.metrics.jemmig import METRIC as JEMMIG
from unweave.metrics.kl_decomposition import METRIC as KL_DECOMPOSITION
from unweave.metrics.mig import METRIC as MIG
from unweave.metrics.mig_sup import METRIC as MIG_SUP
from unweave.metrics.modularity import METRIC as MODULARITY
from unweave.metrics.mutual_info_score import METRIC as MUTUAL_INFO_SCORE
from unweave.metrics.path_length import METRIC as PATH_LENGTH
from unweave.metrics.record import Metric
from unweave.metrics.sap import METRIC as SAP
from unweave.metrics.tc import METRIC as TC
from unweave.metrics.wasserstein import METRIC as WASSERSTEIN
from unweave.plugins import Entries

_OURS: dict[str, Metric] = {metric.name: metric for metric in (
    MIG,
    FACTOR_VAE,
    BETA_VAE,
    MODULARITY,
    EXPLICITNESS,
    DOWNSTREAM,
    SAP,
    DCI,
    DCI_ES,
    MIG_SUP,
    JEMMIG,
    DCIMIG,
    INFOMEC,
    IRS,
    TC,
    WASSERSTEIN,
    MUTUAL_INFO_SCORE,
    ATTRIBUTES,
    CORRELATION,
    ELBO,
    KL_DECOMPOSITION,
    IWAE,
    PATH_LENGTH,
)}

METRICS: Entries[Metric] = Entries("unweave.metrics", Metric, _OURS)
"""Metrics by name: ours, and those of installed plugins."""
