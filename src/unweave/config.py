"""RunConfig: everything that determines a run, as plain values; `run_id` is a hash of it.

Seen by training, studies and the command line only; the rooms below take keyword arguments.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

FORMAT = 1
"""Version of the run folder. A reader refuses folders of a later format."""

Scalar = bool | int | float | str


@dataclass(frozen=True)
class RunConfig:
    """One run. Two runs with equal configs are the same run, whatever they are trained beside.

    The defaults are the published study's (Locatello et al. 2019, table 3). `hyper` holds every
    letter of the method's objective, defaults included, sorted by name.
    """

    method: str
    data: str = "dsprites"
    seed: int = 0
    steps: int = 300_000
    batch_size: int = 64
    num_latents: int = 10
    architecture: str = "conv64"
    likelihood: str = "bernoulli"
    init: str = "glorot"
    learning_rate: float = 1e-4
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-8
    precision: str = "float32"
    hyper: tuple[tuple[str, Scalar], ...] = ()
    init_from: str = ""
    """The run whose weights this one starts from; empty: from its own draw."""

    def __getitem__(self, letter: str) -> Scalar:
        return dict(self.hyper)[letter]

    @property
    def run_id(self) -> str:
        """The method's name and ten hex digits of the SHA-256 of the config."""
        return f"{self.method}-{hashlib.sha256(self.to_json().encode()).hexdigest()[:10]}"

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, floats as Python writes them."""
        record = asdict(self) | {"hyper": dict(self.hyper)}
        if not self.init_from:  # came later: runs without it keep their names
            del record["init_from"]
        return json.dumps(record, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> RunConfig:
        """The config of a parsed JSON record; TypeError or ValueError if it is not one."""
        known = {f.name for f in fields(cls)}
        if not isinstance(record, dict) or set(record) - known or "method" not in record:
            raise ValueError(f"not a run's config: {sorted(set(record) - known)}")
        return cls(**record | {"hyper": tuple(sorted(record.get("hyper", {}).items()))})

    def replace(self, **changes: Any) -> RunConfig:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def pack_key(self, per_run: frozenset[str]) -> tuple[Any, ...]:
        """What must be equal for two runs to share a stack: all but seed, rate and `per_run`.

        `per_run` names the letters that are tensors over the stack (an objective's floats).
        """
        shared = tuple((k, v) for k, v in self.hyper if k not in per_run)
        # Other weights to start from are no reason for another stack, but they skip a warm-up.
        rest = replace(self, seed=0, learning_rate=0.0, hyper=shared,
                       init_from="another" if self.init_from else "")
        return tuple(getattr(rest, f.name) for f in fields(rest))


def log_every(steps: int) -> int:
    """Steps behind one point of a curve: a function of the run's length alone, so that a curve
    does not depend on how, where or in how many pieces the run was trained.
    """
    return max(1, steps // 500)
