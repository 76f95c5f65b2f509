"""Metrics the way they are usually written: loops of latents, factors, votes around scikit-learn.

This is what `metrics.py` times beside ours. It follows the published study: where settings have
changed since (one-vs-rest in 2019) it does what was done in 2019, except that boosting is today's
GradientBoostingClassifier. `jobs` is the number of processes over which factors are spread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from joblib import Parallel, delayed
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import Lasso, LogisticRegression, LogisticRegressionCV
from sklearn.metrics import mutual_info_score, roc_auc_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from unweave.metrics.dci import weighted_purity
from unweave.metrics.sampling import Draw


def information(codes: np.ndarray, factors: np.ndarray) -> np.ndarray:
    bins = [np.digitize(z, np.histogram(z, 20)[1][:-1]) for z in codes.T]
    return np.array([[mutual_info_score(b, v) for v in factors.T] for b in bins])


def mig(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    known = np.sort(information(codes[draw.points], factors[draw.points]), axis=0)
    entropy = [mutual_info_score(v, v) for v in factors[draw.points].T]
    return float(np.mean((known[-1] - known[-2]) / entropy))


def modularity(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    squares = information(codes[draw.points], factors[draw.points]) ** 2
    most = squares.max(axis=1)
    return float(np.mean(1 - (squares.sum(axis=1) - most) / (most * (factors.shape[1] - 1))))


def factor_vae(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    spread = np.var(codes[draw.points], axis=0, ddof=1)
    alive = np.flatnonzero(np.sqrt(spread) >= 0.05)
    votes, right = np.zeros((codes.shape[1], factors.shape[1])), 0
    for i, (group, k) in enumerate(zip(draw.groups, draw.fixed)):
        ratio = np.var(codes[group], axis=0, ddof=1)[alive] / spread[alive]
        winner = alive[np.argmin(ratio)]
        if i < draw.num_train:
            votes[winner, k] += 1
        else:
            right += votes[winner].argmax() == k
    return right / (len(draw.groups) - draw.num_train)


def beta_vae(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    points = np.array([np.abs(codes[pairs[:, 0]] - codes[pairs[:, 1]]).mean(axis=0)
                       for pairs in draw.groups])
    model = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
    model.fit(points[:draw.num_train], draw.fixed[:draw.num_train])
    return model.score(points[draw.num_train:], draw.fixed[draw.num_train:])


def over_factors(function: Callable[..., object], factors: np.ndarray, jobs: int) -> list:
    """A call for each factor, in processes if there are several."""
    return Parallel(n_jobs=jobs)(delayed(function)(v) for v in factors.T)


def explicitness(codes: np.ndarray, factors: np.ndarray, draw: Draw, jobs: int) -> float:
    train, test = draw.points[:draw.num_train], draw.points[draw.num_train:]
    codes = (codes - codes[train].mean(axis=0)) / codes[train].std(axis=0)
    seen, held_out = codes[train], codes[test]

    def one(v: np.ndarray) -> float:
        model = OneVsRestClassifier(LogisticRegression(solver="liblinear")).fit(seen, v[train])
        chance = model.predict_proba(held_out)
        model.predict_proba(seen)
        return float(np.mean([roc_auc_score(v[test] == c, chance[:, i])
                              for i, c in enumerate(model.classes_) if (v[test] == c).any()]))

    return float(np.mean(over_factors(one, factors, jobs)))


def sap(codes: np.ndarray, factors: np.ndarray, draw: Draw, jobs: int) -> float:
    train, test = draw.points[:draw.num_train], draw.points[draw.num_train:]
    seen, held_out = codes[train], codes[test]

    def one(v: np.ndarray) -> list[float]:
        models = [LinearSVC(C=0.01, class_weight="balanced").fit(seen[:, j:j + 1], v[train])
                  for j in range(seen.shape[1])]
        return [np.mean(model.predict(held_out[:, j:j + 1]) == v[test])
                for j, model in enumerate(models)]

    ordered = np.sort(np.array(over_factors(one, factors, jobs)), axis=1)
    return float(np.mean(ordered[:, -1] - ordered[:, -2]))


def dci(codes: np.ndarray, factors: np.ndarray, draw: Draw, jobs: int, stages: int) -> float:
    train, test = draw.points[:draw.num_train], draw.points[draw.num_train:]
    seen, held_out = codes[train], codes[test]

    def one(v: np.ndarray) -> np.ndarray:
        model = GradientBoostingClassifier(n_estimators=stages).fit(seen, v[train])
        model.score(seen, v[train])
        model.score(held_out, v[test])
        return model.feature_importances_

    return weighted_purity(np.array(over_factors(one, factors, jobs)).T)


def downstream(codes: np.ndarray, factors: np.ndarray, draw: Draw, jobs: int, sizes: tuple,
               stages: int | None, exact: bool = False) -> float:
    """The mean accuracy with the most labels; all sizes are fitted. Boosting if it has stages.

    `exact`: regressions go on to their minimum, which the usual settings stop short of.
    """
    end = {"tol": 1e-8, "max_iter": 5_000} if exact else {}
    model = (GradientBoostingClassifier(n_estimators=stages) if stages
             else OneVsRestClassifier(LogisticRegressionCV(Cs=10, cv=KFold(5), **end)))
    train, test = draw.points[:draw.num_train], draw.points[draw.num_train:]
    seen, held_out = codes[train], codes[test]

    def one(v: np.ndarray) -> float:
        for size in sizes:
            names, counts = np.unique(v[train][:size], return_counts=True)
            told = (names[:1] if len(counts) == 1
                    else model.fit(seen[:size], v[train][:size]).predict(held_out))
        return float(np.mean(told == v[test]))

    return float(np.mean(over_factors(one, factors, jobs)))


def irs(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    codes, factors = codes[draw.points], factors[draw.points]
    bins = np.stack([np.digitize(v, np.histogram(v, 20)[1][:-1]) for v in factors.T], axis=1)
    most = np.abs(codes - codes.mean(axis=0)).max(axis=0)
    kept = np.zeros((codes.shape[1], factors.shape[1]))
    for k, v in enumerate(bins.T):
        groups = [codes[v == a] for a in np.unique(v)]
        kept[:, k] = np.mean([np.percentile(np.abs(g - g.mean(axis=0)), 99, axis=0)
                              for g in groups], axis=0)
    return float(np.average((1 - kept / most[:, None]).max(axis=1), weights=most))


def tc(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    covariance = np.cov(codes[draw.points].T)
    return float(0.5 * (np.log(np.diag(covariance)).sum() - np.linalg.slogdet(covariance)[1]))


def wasserstein(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    covariance = np.cov(codes[draw.points].T)
    root = np.diag(np.sqrt(np.diag(covariance)))
    inner = scipy.linalg.sqrtm(root @ covariance @ root).real
    return float(2 * np.trace(covariance) - 2 * np.trace(inner))


def between_latents(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    bins = [np.digitize(z, np.histogram(z, 20)[1][:-1]) for z in codes[draw.points].T]
    shared = np.array([[mutual_info_score(a, b) for a in bins] for b in bins])
    num = len(bins)
    return float((shared.sum() - np.trace(shared)) / (num * (num - 1)))


def udr(runs: list[np.ndarray]) -> float:
    runs = [(run - run.mean(axis=0)) / run.std(axis=0) for run in runs]
    scores = np.zeros((2, len(runs), len(runs)))
    for i, first in enumerate(runs):
        for j, second in enumerate(runs):
            if i == j:
                continue
            weights = np.abs(Lasso(alpha=0.1).fit(first, second).coef_).T
            ranks = np.array([[abs(spearmanr(a, b)[0]) for b in second.T] for a in first.T])
            for s, similarity in enumerate((weights, ranks)):
                scores[s, i, j] = np.mean([np.mean(np.nan_to_num(
                    similarity.max(axis=axis) ** 2 / similarity.sum(axis=axis)))
                    for axis in (0, 1)])
    return float(np.median(np.delete(scores[0, :, 0], 0)))


REFERENCES: dict[str, Callable[..., float]] = {
    "mig": mig, "modularity": modularity, "factor_vae": factor_vae, "beta_vae": beta_vae,
    "explicitness": explicitness, "sap": sap, "dci": dci, "irs": irs, "tc": tc,
    "wasserstein": wasserstein, "mutual_info_score": between_latents,
    "downstream logistic": downstream, "downstream boosting": downstream, "udr": udr}
IN_PROCESSES = ("explicitness", "sap", "dci", "downstream logistic", "downstream boosting")
