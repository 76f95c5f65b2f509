"""Studies that ship: functions that return runs. `unweave study list` shows them.

A study is a function of data sets and seeds; its docstring has the command, the time it takes, what
comes out and the source. To add one: a function, a line in `STUDIES`. Users bring their own as
`file.py:function` (`find_study`).
"""

from __future__ import annotations

import importlib.util
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unweave.config import RunConfig
from unweave.markup import card
from unweave.objectives import aliases, canonical
from unweave.studies.players import (
    infogan_codes,
    infogan_lambda,
    infogan_seeds,
    infogan_stability,
    jiang2017,
)
from unweave.training import parse_seeds, plan
from unweave.types import UserError, unknown_name

STRENGTHS = {
    "vae": "", "beta_vae": "beta", "annealed_vae": "c_max", "factor_vae": "gamma",
    "factor_vae_prior": "gamma", "beta_tcvae": "beta", "dip_vae_i": "lambda_od",
    "dip_vae_ii": "lambda_od", "aae": "gamma", "information_dropout": "beta",
    "joint_vae": "gamma_z", "vade": "", "infogan": "lambda_mi", "infowgan_gp": "lambda_mi",
}
"""The letter that a study of a method varies, whose value is the `strength` of a stored run."""

STUDY_METRICS = ("beta_vae", "factor_vae", "mig", "sap", "dci", "modularity", "explicitness")
"""The disentanglement metrics of Locatello et al. 2019, section 2.2."""

# Locatello et al. 2019, table 3: method, letter, values, other letters.
LOCATELLO_GRID: tuple[tuple[str, str, tuple[float, ...], dict[str, Any]], ...] = (
    ("beta_vae", "beta", (1, 2, 4, 6, 8, 16), {}),
    ("annealed_vae", "c_max", (5, 10, 25, 50, 75, 100), {"gamma": 1000.0}),
    ("factor_vae", "gamma", (10, 20, 30, 40, 50, 100), {"convention": "study2019"}),
    ("dip_vae_i", "lambda_od", (1, 2, 5, 10, 20, 50), {}),
    ("dip_vae_ii", "lambda_od", (1, 2, 5, 10, 20, 50), {}),
    ("beta_tcvae", "beta", (1, 2, 4, 6, 8, 10), {}),
)
LOCATELLO_DATA = ("dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites", "smallnorb",
                  "cars3d", "shapes3d")

Make = Callable[..., list[RunConfig]]


@dataclass(frozen=True)
class Study:
    """A named function that returns runs, and what is done with them by default."""

    name: str
    make: Make
    """(*, data, seeds, device, steps) -> configs; None for a study that trains nothing"""
    summary: str
    data: tuple[str, ...] = ("dsprites",)
    seeds: str = "0..4"
    metrics: tuple[str, ...] = STUDY_METRICS
    convention: str = "study2019"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the metrics, where the study's differ from its convention's; rows say which."""
    source: str = "unweave"
    """`unweave`, or the file that a user's study was read from."""

    def runs(self, *, data: Sequence[str] | None = None, seeds: str | Iterable[int] | None = None,
             device: str = "auto", steps: int | None = None) -> list[RunConfig]:
        """The runs, each once."""
        chosen = {"data": list(data or self.data), "device": device, "steps": steps,
                  "seeds": parse_seeds(self.seeds if seeds is None else seeds)}
        known = inspect.signature(self.make).parameters
        if steps is not None and "steps" not in known:
            raise UserError(f"the study {self.name!r} does not take another number of steps")
        made = list(self.make(**{k: v for k, v in chosen.items()
                                 if k in known and not (k == "steps" and v is None)}))
        if not all(isinstance(config, RunConfig) for config in made):
            raise UserError(f"the study {self.name!r} must return RunConfigs, as "
                            "unweave.training.plan makes them")
        return list({config.run_id: config for config in made}.values())

    def _repr_html_(self) -> str:
        """What a notebook shows: what the study trains and scores, and the command that runs it."""
        return card(self.name, {
            "what": self.summary, "data": list(self.data), "seeds": self.seeds,
            "metrics": list(self.metrics) or "none", "convention": self.convention,
            "run it": f"unweave study run {self.name} --store S"})


def only_methods(configs: Sequence[RunConfig], methods: str | None) -> list[RunConfig]:
    """Runs of some methods, named with commas between; all without names."""
    if methods is None:
        return list(configs)
    known = dict.fromkeys(config.method for config in configs)
    wanted = set()
    for name in methods.split(","):
        name = name.strip()
        own = name if name in known else aliases().get(name, name)
        if own not in known:
            raise unknown_name("method of this study", name, known)
        wanted.add(own)
    return [config for config in configs if config.method in wanted]


def only_strengths(configs: Sequence[RunConfig], strengths: str | None) -> list[RunConfig]:
    """Runs with some values of the letter that the study varies, with commas between."""
    if strengths is None:
        return list(configs)
    known = sorted({value for _, value in map(strength_of, configs) if value is not None})
    words = ", ".join(f"{value:g}" for value in known) or "none"
    wanted = set()
    for word in strengths.split(","):
        try:
            value = float(word)
        except ValueError:
            value = float("nan")
        if value not in known:
            raise UserError(f"{word.strip()!r} is no strength of these runs: they have {words}")
        wanted.add(value)
    return [config for config in configs if strength_of(config)[1] in wanted]


def strength_of(config: RunConfig) -> tuple[str, float | None]:
    """The letter that stands for a run's strength, and its value."""
    letter = STRENGTHS.get(canonical(config.method), "")
    return letter, float(config[letter]) if letter else None


def locatello2019(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
                  steps: int = 300_000) -> list[RunConfig]:
    """The published study: six methods, six strengths, fifty seeds, seven data sets: 12,600 runs.

    Command: unweave study run locatello2019 --data dsprites --seeds 0..49 --store S
    Time: 9 hours of an H200 for the 1,800 runs on dSprites, 76 for all 12,600, by `unweave study
        cost` from measured rates.
    Result: scores in the bands of the released ones; random seeds matter as much as strengths.
    Source: Locatello et al. 2019, tables 2 to 4, as it was run (`study2019`).
    """
    found = []
    for name in data:
        for method, letter, values, other in LOCATELLO_GRID:
            for value in values:
                given = {letter: float(value), **other}
                if method in ("dip_vae_i", "dip_vae_ii"):
                    given["lambda_d"] = float(value) * (10.0 if method == "dip_vae_i" else 1.0)
                found += plan(method, name, seeds=seeds, steps=steps, device=device,
                              architecture="conv64-study2019", **given)
    return found


def kim2018(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
            steps: int | None = None) -> list[RunConfig]:
    """FactorVAE against beta-VAE on 2D and 3D Shapes: beta and gamma grids.

    Command: unweave study run kim2018 --data dsprites --seeds 0..9 --store S
    Time: one hour of an H200, on 3D Shapes 2.3, by `unweave study cost` from rates of a network of
        about this size.
    Result: at equal reconstruction FactorVAE scores higher; figures 4 and 5 of the paper. Scores
        are those of the convention `paper`: its metric, with 800 votes of 100 images.
    Source: Kim & Mnih 2018, section 5 and appendix A: batch 64, 300,000 steps on 2D Shapes and
        500,000 on 3D Shapes, the discriminator at 1e-4 (3D: 1e-5), Adam's betas 0.5 and 0.9 there.
    """
    found = []
    for name in data:
        solid = name.startswith("shapes3d")
        common = {"seeds": seeds, "device": device,
                  "steps": steps or (500_000 if solid else 300_000),
                  "architecture": "kim2018-shapes3d" if solid else "kim2018-shapes2d",
                  "num_latents": 6 if solid else 10}
        found += plan("beta_vae", name, beta=[1.0, 4.0, 6.0, 10.0], **common)
        found += plan("factor_vae", name, gamma=[10.0, 20.0, 30.0, 40.0, 50.0, 100.0],
                      critic_rate=1e-5 if solid else 1e-4, **common)
    return found


def kumar2018(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
              steps: int = 300_000) -> list[RunConfig]:
    """DIP-VAE against VAE and beta-VAE on 2D Shapes, with the SVM form of the BetaVAE metric.

    Command: unweave study run kumar2018 --seeds 0..4 --store S
    Time: not measured with this network; `unweave study status` says what is left at the pace of
        your machine.
    Result: table 1 and figure 1 of the paper: scores against reconstruction.
    Source: Kumar et al. 2018, section 3: beta 4 and 60, lambda_od from 1 to 50 with
        lambda_d = 10 lambda_od (DIP-VAE-II: lambda_d = lambda_od), the dense network of Higgins et
        al. 2017, a one-vs-rest SVM with C = 0.01. The text says neither how long they trained nor
        how many pairs a point of the score has: here as in Kim & Mnih 2018. Higgins et al. used
        Adagrad, here it is Adam.
    """
    found = []
    for name in data:
        common = {"seeds": seeds, "device": device, "steps": steps,
                  "architecture": "higgins2017-dense"}
        found += plan("vae", name, **common)
        found += plan("beta_vae", name, beta=[4.0, 20.0, 60.0], **common)
        for value in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
            found += plan("dip_vae_i", name, lambda_od=value, lambda_d=10.0 * value, **common)
            found += plan("dip_vae_ii", name, lambda_od=value, lambda_d=value, **common)
    return found


def kaddah2020(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
               steps: int = 345_600) -> list[RunConfig]:
    """Five methods on dSprites, and on 3D Shapes with batch normalisation.

    Command: unweave study run kaddah2020 --seeds 0..4 --store S
    Time: 0.8 hours of an H200 for 25 runs, by `unweave study cost` from rates of a network of about
        this size.
    Result: table 2 of the paper: FactorVAE scores and reconstruction on dSprites. On 3D Shapes
        (--data shapes3d, or shapes3d-render) the paper has a first look.
    Source: Kaddah 2020, section 4: Burgess et al.'s network on dSprites, table 1 on 3D Shapes,
        weights begun as PyTorch does. The paper prints neither strengths nor rates nor how long it
        trained; it took those of disentangling-vae "into consideration". So these are that
        program's for dSprites, and for JointVAE those of Dupont 2018, six continuous latents among
        them: 30 epochs of both. What its own program does otherwise: docs/reproduction.md.
    """
    found = []
    for name in data:
        solid = name.startswith("shapes3d")
        common = {"seeds": seeds, "device": device, "steps": steps, "init": "pytorch",
                  "architecture": "kaddah2020" if solid else "burgess2018"}
        shapes = 4 if solid else 3  # one category, and the capacity to say which it is
        found += plan("beta_vae", name, beta=4.0, learning_rate=5e-4, **common)
        found += plan("cc_vae", name, c_max=25.0, gamma=100.0, anneal_steps=100_000.0,
                      learning_rate=1e-3, **common)
        found += plan("factor_vae", name, gamma=6.4, critic_rate=1e-4, learning_rate=1e-4, **common)
        found += plan("beta_tcvae", name, beta=6.4, learning_rate=5e-4, **common)
        found += plan("joint_vae", name, gamma_z=150.0, gamma_c=150.0, c_max_z=40.0,
                      c_max_c=round(math.log(shapes), 2), anneal_steps=300_000.0,
                      categories=str(shapes), learning_rate=5e-4, num_latents=6, **common)
    return found


def hartmann2021(data: Sequence[str], seeds: Sequence[int]) -> list[RunConfig]:
    """Questions to stored or published rows: this study trains nothing.

    Command: unweave study import published --file dsprites_full.csv.gz --store S, then
        unweave study analyse S
    Time: half a minute on two cores for every question (docs/studies/published.md).
    Result: box plots by model, data set, strength and seed (figures 7 to 11).
    Source: Hartmann 2021, sections 5.1.1 to 5.1.5.
    """
    return []


def quick(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
          steps: int = 300) -> list[RunConfig]:
    """A look at the machinery in minutes on a CPU: two methods, two strengths, a small network.

    Command: unweave study run quick --store S
    Time: about three minutes for two seeds on two cores.
    Result: rows, curves and scores of eight short runs; the scores say little after 300 steps.
    Source: unweave.
    """
    common = {"seeds": seeds, "device": device, "steps": steps, "architecture": "conv64-small",
              "learning_rate": 1e-3}
    return [config for name in data
            for config in (*plan("beta_vae", name, beta=[1.0, 8.0], **common),
                           *plan("beta_tcvae", name, beta=[2.0, 8.0], **common))]


def _study(make: Make, **rest: Any) -> Study:
    return Study(make.__name__, make, (make.__doc__ or "").strip().splitlines()[0], **rest)


STUDIES: Mapping[str, Study] = {study.name: study for study in (
    _study(locatello2019, data=LOCATELLO_DATA, seeds="0..49",
           metrics=(*STUDY_METRICS, "elbo", "tc", "wasserstein", "mutual_info_score")),
    _study(kim2018, data=("dsprites", "shapes3d"), seeds="0..9", metrics=("factor_vae", "elbo"),
           convention="paper"),
    _study(kumar2018, metrics=("beta_vae", "sap", "elbo"), convention="paper",
           settings={"classifier": "svm"}),
    _study(kaddah2020, metrics=("factor_vae", "elbo"), convention="paper"),
    _study(hartmann2021, metrics=()),
    # Scores of 15,000 points: the FactorVAE score would encode most of the data set on a CPU.
    _study(infogan_seeds, data=("mnist,size=28",), metrics=("clusters", "mig"),
           convention="paper"),
    _study(infogan_codes, data=("mnist,size=28",), metrics=("clusters", "mig"),
           convention="paper"),
    _study(infogan_lambda, seeds="0..9", metrics=("beta_vae", "factor_vae"), convention="paper"),
    _study(infogan_stability, data=("mnist,size=28", "dsprites"), metrics=("clusters",)),
    _study(jiang2017, data=("mnist,size=28,split=all",), seeds="0..9",
           metrics=("clusters", "mig", "sap", "dci", "modularity")),
    _study(quick, seeds="0..1", metrics=("mig", "sap", "modularity")),
)}


def find_study(name: str) -> Study:
    """A study by name, or the function of a user's file: `path/to/file.py:function`."""
    if ".py:" not in name:
        if name not in STUDIES:
            raise unknown_name("study", name, STUDIES)
        return STUDIES[name]
    path, _, function = name.rpartition(":")
    if not Path(path).is_file():
        raise UserError(f"{path} does not exist: give the file of a study, as file.py:function")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's own code: whatever it raises is theirs to read
        raise UserError(f"{path} cannot be imported ({type(error).__name__}: {error})") from error
    make = getattr(module, function, None)
    if not callable(make):
        raise UserError(f"{path} has no function {function!r}")
    metrics = getattr(module, "METRICS", STUDY_METRICS)
    settings = getattr(module, "SETTINGS", {})
    if not isinstance(settings, Mapping):
        raise UserError(f"SETTINGS of {path} must be a dictionary, such as "
                        f"{{'num_train_votes': 1000}}, and is {settings!r}")
    summary = (make.__doc__ or function).strip().splitlines()[0]
    return Study(function, make, summary, metrics=tuple(metrics),
                 convention=getattr(module, "CONVENTION", "study2019"),
                 settings=settings, source=str(Path(path).resolve()))
