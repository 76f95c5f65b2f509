"""DCI of the published study's code, then and now (reference material needed)."""


import numpy as np
import pytest

from unweave.metrics.dci import METRIC, dci
from unweave.metrics.record import accepted

PROBLEMS = ["identity", "permscaled", "rot45", "collapsed", "duplicate", "noisy010", "noisy050",
            "random", "missing", "categorical", "dsprites_ident", "dsprites_vae", "nonuniform",
            "mixed"]
CASES = [("study2019", "dlib_era/arrays", name) for name in PROBLEMS]
CASES += [("paper", "dlib_modern/arrays", name) for name in ("noisy050", "categorical", "mixed")]


@pytest.mark.parametrize(("convention", "whose", "name"), CASES)
def test_dci_of_the_stored_rows(golden, load, convention, whose, name):
    problem, said = load(name), golden[f"pub_{name}"]
    used = said["dci_disentanglement"][whose]["settings"]
    first = problem["n_train"]
    rows = np.r_[:used["n_train"], first:first + used["n_test"]]
    settings = accepted(dci, METRIC.conventions[convention])
    ours = dci(problem["codes"][rows].astype(np.float64), problem["factors"][rows],
               num_train=used["n_train"], **settings)
    for key, value in ours.items():
        reference = said[key.replace(".", "_")][whose]["value"]
        assert value == pytest.approx(reference, abs=0.01), key
