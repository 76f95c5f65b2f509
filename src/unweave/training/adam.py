"""Adam with a rate for each run of a stack. Kingma & Ba 2015, algorithm 1.

Nothing couples runs: moments, bias corrections and rates are elementwise or per run, and no norm
is taken over the stack. On the CPU each run's tensors go through torch's fused kernel, so that a
run sees the same sequence of operations whatever its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unweave.types import Params


class Adam:
    """Optimiser of the tensors in `params`, each `[run, ...]`, with one learning rate a run."""

    def __init__(self, params: Params, rates: Sequence[float], *, beta1: float = 0.9,
                 beta2: float = 0.999, eps: float = 1e-8) -> None:
        self.params, self.rates = params, [float(r) for r in rates]
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.num_steps = 0
        self.first = {k: torch.zeros_like(p, requires_grad=False) for k, p in params.items()}
        self.second = {k: torch.zeros_like(p, requires_grad=False) for k, p in params.items()}
        tensors = list(params.values())
        self._on_cpu = tensors[0].device.type == "cpu" and hasattr(torch, "_fused_adam_")
        if self._on_cpu:
            self._counts = [torch.zeros(()) for _ in tensors]
            self._slices = [
                tuple([t.detach()[m] for t in group.values()]
                      for group in (params, self.first, self.second))
                for m in range(len(self.rates))
            ]
        else:
            self._rates = torch.tensor(self.rates, device=tensors[0].device)

    @torch.no_grad()
    def step(self) -> None:
        """One update from the gradients on the parameters, which are then dropped."""
        self.num_steps += 1
        grads = [p.grad for p in self.params.values()]
        if self._on_cpu:
            for count in self._counts:
                count.fill_(float(self.num_steps))
            for m, (values, first, second) in enumerate(self._slices):
                torch._fused_adam_(values, [g[m] for g in grads], first, second, [], self._counts,
                                   lr=self.rates[m], beta1=self.beta1, beta2=self.beta2,
                                   weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False)
        else:
            self._step_by_formula(grads)
        for p in self.params.values():
            p.grad = None

    def _step_by_formula(self, grads: list[Tensor]) -> None:
        values, first, second = (list(g.values()) for g in (self.params, self.first, self.second))
        torch._foreach_lerp_(first, grads, 1.0 - self.beta1)
        torch._foreach_mul_(second, self.beta2)
        torch._foreach_addcmul_(second, grads, grads, 1.0 - self.beta2)
        scale = torch._foreach_sqrt(second)
        torch._foreach_div_(scale, (1.0 - self.beta2**self.num_steps) ** 0.5)
        torch._foreach_add_(scale, self.eps)
        change = torch._foreach_div(first, scale)
        rates = self._rates / (1.0 - self.beta1**self.num_steps)
        torch._foreach_mul_(change, [rates.reshape(-1, *[1] * (c.ndim - 1)) for c in change])
        torch._foreach_sub_(values, change)

    def state(self, run: int) -> Params:
        """The moments of one run, named as in a checkpoint."""
        return ({f"adam.first.{k}": t[run] for k, t in self.first.items()}
                | {f"adam.second.{k}": t[run] for k, t in self.second.items()})

    @torch.no_grad()
    def restore(self, run: int, state: Params) -> None:
        """Put back the moments of one run."""
        for name, moments in (("first", self.first), ("second", self.second)):
            for k, t in moments.items():
                t[run].copy_(state[f"adam.{name}.{k}"])
