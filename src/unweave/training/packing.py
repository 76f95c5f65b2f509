"""Packing: which runs share a stack, and how many run side by side on a device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unweave.config import RunConfig
from unweave.objectives import letters


def per_run_letters(method: str) -> frozenset[str]:
    """Letters of a method that may differ within a stack."""
    return frozenset(k for k, letter in letters(method).items() if letter.per_run)


def pack(configs: Sequence[RunConfig], starts: Sequence[int]) -> list[list[int]]:
    """Groups of positions in `configs` that can train together: equal pack key, equal start."""
    groups: dict[tuple, list[int]] = {}
    for i, (config, start) in enumerate(zip(configs, starts)):
        key = (start, *config.pack_key(per_run_letters(config.method)))
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def lanes(group: Sequence[int], device: torch.device) -> list[list[int]]:
    """How a group is laid out on a device: one stack on a GPU; on a CPU one run after another.

    A CPU has no idle units for a second model to fill: layer by layer is 5 to 10 % faster there
    (`bench/cpu.py` prints both), which is what it costs that a run, alone in its operations, is
    bit-identical whatever its neighbours.
    """
    return [[i] for i in group] if device.type == "cpu" else [list(group)]
