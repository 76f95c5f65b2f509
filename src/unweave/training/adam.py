"""Adam with a rate for each run of a stack. Kingma & Ba 2015, algorithm 1.

Nothing couples runs: moments, bias corrections and rates are elementwise or per run, and no norm
is taken over the stack. On the CPU each run's tensors go through torch's fused kernel, so that a
run sees the same sequence of operations whatever its neighbours; on a GPU with Triton one kernel
updates a tensor of all runs; elsewhere a handful of tensor operations do.

On a GPU the number of steps is a tensor there, so that a CUDA graph can hold the update. Weights
are float32; where layers compute in bfloat16 they get copies, which every update writes anew, and
the gradients arrive at the copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unweave.nn import gpu
from unweave.types import Params


class Adam:
    """Optimiser of the tensors in `params`, each `[run, ...]`, with one learning rate a run.

    `copies` are those that have gradients: `params` themselves, or their low-precision copies.
    """

    def __init__(self, params: Params, rates: Sequence[float], *, beta1: float = 0.9,
                 beta2: float = 0.999, eps: float = 1e-8, copies: Params | None = None) -> None:
        self.params, self.rates = params, [float(r) for r in rates]
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.copies = copies
        self.first = {k: torch.zeros_like(p, requires_grad=False) for k, p in params.items()}
        self.second = {k: torch.zeros_like(p, requires_grad=False) for k, p in params.items()}
        tensors = list(params.values())
        device = tensors[0].device
        self._on_cpu = device.type == "cpu" and hasattr(torch, "_fused_adam_") and copies is None
        self._by_kernel = gpu.usable(tensors[0])
        self._num_steps = 0
        if self._on_cpu:
            self._counts = [torch.zeros(()) for _ in tensors]
            self._slices = [
                tuple([t.detach()[m] for t in group.values()]
                      for group in (params, self.first, self.second))
                for m in range(len(self.rates))
            ]
        else:
            self._rates = torch.tensor(self.rates, device=device, dtype=torch.float64)
            self._clock = torch.zeros((), dtype=torch.float64, device=device)

    @property
    def num_steps(self) -> int:
        """How many updates were made; on a device this waits for it."""
        return self._num_steps if self._on_cpu else int(self._clock.item())

    @num_steps.setter
    def num_steps(self, steps: int) -> None:
        if self._on_cpu:
            self._num_steps = steps
        else:
            self._clock.fill_(steps)

    @torch.no_grad()
    def step(self, scale: Tensor | None = None) -> None:
        """One update from the gradients, which are then dropped; `scale` `[run]` is the rates'."""
        with_gradients = (self.copies or self.params).values()
        grads = [p.grad for p in with_gradients]
        if self._on_cpu:
            self._step_on_cpu(grads, [1.0] * len(self.rates) if scale is None
                              else scale.expand(len(self.rates)).tolist())
        else:
            self._clock += 1.0
            # In float64: 1 - 0.999^t loses half of float32's digits at the first steps.
            rates = self._rates if scale is None else self._rates * scale
            rates = (rates / (1.0 - self.beta1**self._clock)).float()
            root = torch.sqrt(1.0 - self.beta2**self._clock).float()
            if self._by_kernel:
                copies = self.copies or {}
                gpu.adam_step(
                    list(self.params.values()), grads, list(self.first.values()),
                    list(self.second.values()), [copies.get(k) for k in self.params], rates, root,
                    beta1=self.beta1, beta2=self.beta2, eps=self.eps)
            else:
                self._step_by_formula(grads, rates, root)
                self.refresh()
        for p in with_gradients:
            p.grad = None

    def _step_on_cpu(self, grads: list[Tensor], scales: list[float]) -> None:
        self._num_steps += 1
        for count in self._counts:
            count.fill_(float(self._num_steps))
        for m, (values, first, second) in enumerate(self._slices):
            torch._fused_adam_(values, [g[m] for g in grads], first, second, [], self._counts,
                               lr=self.rates[m] * scales[m], beta1=self.beta1, beta2=self.beta2,
                               weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False)

    def _step_by_formula(self, grads: list[Tensor], rates: Tensor, root: Tensor) -> None:
        values, first, second = (list(g.values()) for g in (self.params, self.first, self.second))
        grads = [g.to(v.dtype) for g, v in zip(grads, values)]
        torch._foreach_lerp_(first, grads, 1.0 - self.beta1)
        torch._foreach_mul_(second, self.beta2)
        torch._foreach_addcmul_(second, grads, grads, 1.0 - self.beta2)
        scale = torch._foreach_sqrt(second)
        torch._foreach_div_(scale, root)
        torch._foreach_add_(scale, self.eps)
        change = torch._foreach_div(first, scale)
        torch._foreach_mul_(change, [rates.reshape(-1, *[1] * (c.ndim - 1)) for c in change])
        torch._foreach_sub_(values, change)

    @torch.no_grad()
    def refresh(self) -> None:
        """Make the copies anew from the weights."""
        for k, copy in (self.copies or {}).items():
            copy.copy_(self.params[k])

    @torch.no_grad()
    def forget(self) -> None:
        """Begin anew: no moments, no steps."""
        for moment in (*self.first.values(), *self.second.values()):
            moment.zero_()
        self.num_steps = 0

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
