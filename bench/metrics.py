"""Each metric at study size: our time and that of the way it is usually written, in one run.

    python bench/metrics.py                        study size; the reference of DCI takes minutes
    python bench/metrics.py --rows 1000            a tenth of it
    python bench/metrics.py --metrics dci --stages 10
    python bench/metrics.py --metrics udr --runs 50    its reference takes minutes

Codes have 10 latents and stand for the factors of dSprites, each latent a noisy mixture; 10,000
points or votes train and half as many test. The usual way is that of the published study: loops
over latents, factors and votes around scikit-learn. Both see the same rows, drawn beforehand.
Where the settings have changed since (one-vs-rest in 2019) both do what was done in 2019, except
that DCI's reference is today's GradientBoostingClassifier.

UDR compares `--runs` runs, each a mixture of its own, on 1,000 points, by lasso and by ranks.

The first call of ours, which may compile, is not timed. The reference runs on one thread; ours on
one and on all, where all is what OMP_NUM_THREADS allows. The ratio is that of one thread.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.stats import spearmanr
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.metrics import mutual_info_score, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from unweave.factors import FactorSpace
from unweave.metrics import ACROSS_RUNS, METRICS, plan_scores
from unweave.metrics.dci import weighted_purity
from unweave.metrics.sampling import Draw

SPACE = FactorSpace(("shape", "scale", "orientation", "x", "y"), (3, 6, 40, 32, 32))
NUM_LATENTS = 10


def encode(index: np.ndarray) -> np.ndarray:
    """Five latents that know a factor and a little of others, five that know next to nothing."""
    rng = np.random.default_rng(0)
    factors = SPACE.factors(index) / (np.array(SPACE.sizes) - 1) - 0.5
    mixing = 0.15 * rng.normal(size=(5, NUM_LATENTS)) + 3.0 * np.eye(5, NUM_LATENTS)
    noise = rng.normal(size=(len(SPACE) // 64, NUM_LATENTS))
    return np.tanh(factors @ mixing) + 0.1 * noise[index % len(noise)]


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


def explicitness(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    train, test = draw.points[:draw.num_train], draw.points[draw.num_train:]
    mean, deviation = codes[train].mean(axis=0), codes[train].std(axis=0)
    codes, areas = (codes - mean) / deviation, []
    for v in factors.T:
        model = OneVsRestClassifier(LogisticRegression(solver="liblinear")).fit(codes[train],
                                                                                v[train])
        chance = model.predict_proba(codes[test])
        areas.append(np.mean([roc_auc_score(v[test] == c, chance[:, i])
                              for i, c in enumerate(model.classes_) if (v[test] == c).any()]))
    return float(np.mean(areas))


def sap(codes: np.ndarray, factors: np.ndarray, draw: Draw) -> float:
    train, test = draw.points[:draw.num_train], draw.points[draw.num_train:]
    right = np.zeros((codes.shape[1], factors.shape[1]))
    for j in range(codes.shape[1]):
        for k in range(factors.shape[1]):
            model = LinearSVC(C=0.01, class_weight="balanced")
            model.fit(codes[train, j:j + 1], factors[train, k])
            right[j, k] = np.mean(model.predict(codes[test, j:j + 1]) == factors[test, k])
    ordered = np.sort(right, axis=0)
    return float(np.mean(ordered[-1] - ordered[-2]))


def dci(codes: np.ndarray, factors: np.ndarray, draw: Draw, stages: int) -> float:
    train, test = draw.points[:draw.num_train], draw.points[draw.num_train:]
    importances = []
    for v in factors.T:
        model = GradientBoostingClassifier(n_estimators=stages).fit(codes[train], v[train])
        importances.append(model.feature_importances_)
        model.score(codes[train], v[train])
        model.score(codes[test], v[test])
    return weighted_purity(np.array(importances).T)


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


def compare_runs(num: int, rounds: int, cores: int) -> str:
    """The row of UDR: the score of the first run and the times for all of them."""
    rng = np.random.default_rng(0)
    codes = encode(rng.integers(len(SPACE), size=1_000))
    runs = [codes @ rng.normal(size=(NUM_LATENTS, NUM_LATENTS)) for _ in range(num)]

    def ours() -> float:
        return float(ACROSS_RUNS["udr"].function(runs)["udr"][0])

    ours()
    one, value = timed(ours, rounds, 1)
    every = timed(ours, rounds, cores)[0] if cores > 1 else one
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual, reference = timed(partial(udr, runs), 1, 1)
    return (f"{f'udr, {num} runs':14}{value:8.3f}{reference:8.3f}{one:10.4f}{every:10.4f}"
            f"{usual:10.3f}{usual / one:8.1f}")


REFERENCES: dict[str, Callable[..., float]] = {
    "mig": mig, "modularity": modularity, "factor_vae": factor_vae, "beta_vae": beta_vae,
    "explicitness": explicitness, "sap": sap, "dci": dci}


def timed(call: Callable[[], float], rounds: int, threads: int) -> tuple[float, float]:
    """The least time of some rounds, and the value."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    best = np.inf
    with threadpool_limits(threads):
        for _ in range(rounds):
            start = time.perf_counter()
            value = call()
            best = min(best, time.perf_counter() - start)
    return best, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000, help="points or votes that train")
    parser.add_argument("--metrics", nargs="*", default=[*METRICS, *ACROSS_RUNS],
                        help="all if not given")
    parser.add_argument("--stages", type=int, default=100, help="stages of boosting, for both")
    parser.add_argument("--runs", type=int, default=10, help="runs that UDR compares")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of ours; the best counts")
    args = parser.parse_args()
    said = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(said) if said.isdigit() else len(os.sched_getaffinity(0))
    sizes = {"num_points": args.rows, "num_train_points": args.rows, "num_train_votes": args.rows,
             "num_test_points": args.rows // 2, "num_test_votes": args.rows // 2,
             "num_stages": args.stages}
    print(f"{args.rows} / {args.rows // 2} rows, {NUM_LATENTS} latents, factors {SPACE.sizes}; "
          f"seconds on one thread and on {cores}")
    print(f"{'metric':14}{'score':>8}{'usual':>8}{'ours 1':>10}{f'ours {cores}':>10}"
          f"{'usual 1':>10}{'ratio':>8}")
    for name in args.metrics:
        if name in ACROSS_RUNS:
            print(compare_runs(args.runs, args.rounds, cores), flush=True)
            continue
        known = METRICS[name].conventions["study2019"]
        plan = plan_scores(SPACE, metrics=name, **{k: v for k, v in sizes.items() if k in known})
        codes = encode(plan.index)

        def ours(plan=plan, codes=codes) -> float:
            return plan.score(codes, details=False)[0].value

        ours()
        one, value = timed(ours, args.rounds, 1)
        every = timed(ours, args.rounds, cores)[0] if cores > 1 else one
        row = f"{name:14}{value:8.3f}"
        if name not in REFERENCES:
            print(f"{row}{'':8}{one:10.4f}{every:10.4f}", flush=True)
            continue
        more = {"stages": args.stages} if name == "dci" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            way = partial(REFERENCES[name], codes, plan.factors, plan.draws[0], **more)
            usual, reference = timed(way, 1, 1)
        print(f"{row}{reference:8.3f}{one:10.4f}{every:10.4f}{usual:10.3f}{usual / one:8.1f}",
              flush=True)


if __name__ == "__main__":
    main()
