"""Each metric at study size: our time and that of the way it is usually written, in one run.

    python bench/metrics.py                        study size; the reference takes half an hour
    python bench/metrics.py --rows 1000            a tenth of it
    python bench/metrics.py --metrics dci --stages 10
    python bench/metrics.py --metrics udr --runs 50
    python bench/metrics.py --stack 8              a stack of runs at once, beside a loop over them
    python bench/metrics.py --study                what the published study's scores of a run take

Codes have 10 latents and stand for the factors of dSprites, each latent a noisy mixture; 10,000
points or votes train and half as many test. The usual way is in `usual.py`; both see the same rows,
drawn beforehand. UDR compares `--runs` runs, each a mixture of its own, on 1,000 points.

Both run on one thread and on all, where all is what OMP_NUM_THREADS allows. The reference spreads
its factors over as many processes where it has models for them, which serves it better than
scikit-learn's own `n_jobs`, and boosting has none; elsewhere it runs as it is. Starting the
processes is not timed, nor is the first call of ours, which may compile. The last line adds up all
rows with a reference. `--cpu` takes processor time, for one thread on a machine that others use.
With `--save` rows are also written to a file, and `--add` prints several files together.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits
from usual import IN_PROCESSES, REFERENCES, over_factors

from unweave.factors import FactorSpace
from unweave.metrics import ACROSS_RUNS, METRICS, Plan, plan_scores, score_stack
from unweave.studies.catalog import STUDIES

os.environ.setdefault("PYTHONWARNINGS", "ignore")  # of the reference's processes

SPACE = FactorSpace(("shape", "scale", "orientation", "x", "y"), (3, 6, 40, 32, 32))
NUM_LATENTS = 10
MODELS = ("logistic", "boosting")


def encode(index: np.ndarray) -> np.ndarray:
    """Five latents that know a factor and a little of others, five that know next to nothing."""
    rng = np.random.default_rng(0)
    factors = SPACE.factors(index) / (np.array(SPACE.sizes) - 1) - 0.5
    mixing = 0.15 * rng.normal(size=(5, NUM_LATENTS)) + 3.0 * np.eye(5, NUM_LATENTS)
    noise = rng.normal(size=(len(SPACE) // 64, NUM_LATENTS))
    return np.tanh(factors @ mixing) + 0.1 * noise[index % len(noise)]


def timed(call: Callable[[], float], rounds: int, threads: int,
          clock: Callable[[], float]) -> tuple[float, float]:
    """The least time of some rounds, and the value."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    best = np.inf
    with threadpool_limits(threads):
        for _ in range(rounds):
            start = clock()
            value = call()
            best = min(best, clock() - start)
    return best, value


def reference(row: str, plan: Plan, codes: np.ndarray, stages: int, jobs: int,
              exact: bool) -> Callable[[], float]:
    """The usual way for a row of the table, ready to be called."""
    more: dict[str, object] = {"jobs": jobs} if row in IN_PROCESSES else {}
    if row.startswith("downstream"):
        more |= {"sizes": plan.settings[0]["sizes"], "exact": exact}
    if row.startswith(("dci", "downstream")):
        more["stages"] = None if row.endswith("logistic") else stages
    return partial(REFERENCES[row], codes, plan.factors, plan.draws[0], **more)


def prepared(row: str, args: argparse.Namespace) -> tuple[Callable[[], float], Callable]:
    """Ours, and the usual way by number of threads (None if there is none)."""
    if row in ACROSS_RUNS:
        rng = np.random.default_rng(0)
        codes = encode(rng.integers(len(SPACE), size=1_000))
        runs = [codes @ rng.normal(size=(NUM_LATENTS, NUM_LATENTS)) for _ in range(args.runs)]
        return (lambda: float(ACROSS_RUNS[row].function(runs)[row][0]),
                lambda _: partial(REFERENCES[row], runs))
    name, *model = row.split()
    counts = tuple(size for size in (10, 100, 1_000, 10_000) if size <= args.rows)
    sizes = {"num_points": args.rows, "num_train_points": args.rows, "num_train_votes": args.rows,
             "num_test_points": args.rows // 2, "num_test_votes": args.rows // 2,
             "num_stages": args.stages, "sizes": counts, "models": tuple(model)}
    known = METRICS[name].conventions["study2019"]
    plan = plan_scores(SPACE, metrics=name, **{k: v for k, v in sizes.items() if k in known})
    codes = encode(plan.index)
    key = f"downstream.{model[0]}.{counts[-1]}" if model else next(iter(METRICS[name].keys))

    def ours() -> float:
        return {r.key: r.value for r in plan.score(codes, details=False)}[key]

    return ours, lambda threads: (reference(row, plan, codes, args.stages, threads, args.exact)
                                  if row in REFERENCES else None)


def measured(row: str, args: argparse.Namespace, threads: list[int]) -> dict[str, float | str]:
    """Seconds and scores of one row."""
    clock = time.process_time if args.cpu else time.perf_counter
    ours, usual = prepared(row, args)
    ours()
    made: dict[str, float | str] = {"metric": row}
    for t in threads:
        made[f"ours {t}"], made["score"] = timed(ours, args.rounds, t, clock)
        way = None if args.no_reference else usual(t)
        if way is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if t > 1:  # start the processes
                    over_factors(np.unique, np.zeros((10, t)), t)
                made[f"usual {t}"], made["usual"] = timed(way, 1, t, clock)
    return made


def compare_stack(num: int, args: argparse.Namespace, cores: int) -> None:
    """The default metrics of some runs, one after the other and as a stack."""
    plan = plan_scores(SPACE, metrics=args.metrics)
    rng = np.random.default_rng(0)
    codes = encode(plan.index)
    runs = np.stack([codes @ rng.normal(size=(NUM_LATENTS, NUM_LATENTS)) for _ in range(num)])
    loop = timed(lambda: [plan.score(run, details=False) for run in runs], args.rounds, cores,
                 time.perf_counter)[0]
    stack = timed(lambda: score_stack(plan, runs, details=False), args.rounds, cores,
                  time.perf_counter)[0]
    print(f"{num} runs, {cores} threads: a loop {loop:.2f} s, a stack {stack:.2f} s, "
          f"{loop / stack:.1f}x")


def time_study() -> None:
    """Seconds of a core for the scores of `locatello2019`, but for those of its losses."""
    names = [name for name in STUDIES["locatello2019"].metrics if not METRICS[name].needs]
    plan = plan_scores(SPACE, metrics=names)
    codes = encode(plan.index)
    plan.score(codes, details=False)  # compiles
    for details, what in ((False, "scores alone"), (True, "with intervals, floors and ceilings")):
        seconds = timed(partial(plan.score, codes, details=details), 1, 1, time.perf_counter)[0]
        print(f"{', '.join(names)}, one thread, {what}: {seconds:.1f} s", flush=True)


def shown(row: dict[str, float | str], threads: list[int]) -> str:
    text = f"{row['metric']:20}"
    text += "".join(f"{row[key]:8.3f}" if key in row else f"{'':8}" for key in ("score", "usual"))
    for t in threads:
        ours, usual = row.get(f"ours {t}"), row.get(f"usual {t}")
        text += "".join(f"{v:10.3f}" if v is not None else f"{'':10}" for v in (ours, usual))
        text += f"{usual / ours:7.1f}x" if ours and usual else f"{'':8}"
    return text


def total(rows: list[dict[str, float | str]], threads: list[int]) -> dict[str, float | str]:
    """Sums over the rows that have both times."""
    made: dict[str, float | str] = {"metric": "total"}
    for t in threads:
        both = [row for row in rows if f"usual {t}" in row and f"ours {t}" in row]
        if both:
            made |= {f"{who} {t}": sum(row[f"{who} {t}"] for row in both)
                     for who in ("ours", "usual")}
    return made


def heads(threads: list[int]) -> str:
    return f"{'metric':20}{'score':>8}{'usual':>8}" + "".join(
        f"{f'ours {t}':>10}{f'usual {t}':>10}{'ratio':>8}" for t in threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000, help="points or votes that train")
    parser.add_argument("--metrics", nargs="*", help="all if not given")
    parser.add_argument("--stages", type=int, default=100, help="stages of boosting, for both")
    parser.add_argument("--runs", type=int, default=10, help="runs that UDR compares")
    parser.add_argument("--stack", type=int, help="score so many runs as a stack and in a loop")
    parser.add_argument("--study", action="store_true", help="the study's scores of a run")
    parser.add_argument("--cpu", action="store_true", help="processor time, not that of the wall")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of ours; the best counts")
    parser.add_argument("--threads", type=int, nargs="*", help="numbers of threads; 1 and all")
    parser.add_argument("--exact", action="store_true",
                        help="let the reference's downstream regressions reach their minimum")
    parser.add_argument("--no-reference", action="store_true", help="ours alone")
    parser.add_argument("--save", type=Path, help="write the rows to a file as well")
    parser.add_argument("--add", type=Path, nargs="*", help="print what was saved, with its total")
    args = parser.parse_args()
    said = os.environ.get("OMP_NUM_THREADS", "")
    cores = int(said) if said.isdigit() else len(os.sched_getaffinity(0))
    if args.add:
        saved: dict[str, dict] = {}
        for path in args.add:
            for row in json.loads(path.read_text()):
                saved.setdefault(row["metric"], {}).update(row)
        threads = sorted({int(key.split()[1]) for row in saved.values() for key in row
                          if key.startswith("ours ")})
        print("\n".join([heads(threads), *(shown(row, threads) for row in saved.values()),
                         shown(total(list(saved.values()), threads), threads)]))
        return
    if args.study:
        return time_study()
    if args.stack:
        return compare_stack(args.stack, args, cores)
    threads = args.threads or sorted({1, cores})
    # Metrics that look at a model cost what its passes cost: `bench/gpu.py` and their pages say it.
    of_codes = [name for name, metric in METRICS.items() if not metric.needs]
    names = args.metrics or [*of_codes, *ACROSS_RUNS]
    names = [row for name in names for row in (
        [f"downstream {model}" for model in MODELS] if name == "downstream" else [name])]
    print(f"{args.rows} / {args.rows // 2} rows, {NUM_LATENTS} latents, factors {SPACE.sizes}; "
          f"seconds by number of threads\n{heads(threads)}", flush=True)
    rows = []
    for row in names:
        rows.append(measured(row, args, threads))
        print(shown(rows[-1], threads), flush=True)
        if args.save:
            args.save.write_text(json.dumps(rows))
    print(shown(total(rows, threads), threads))


if __name__ == "__main__":
    main()
