"""What objectives and games share: how an encoder's output becomes codes, and codes are decoded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unweave.objectives import METHODS, canonical, complete
from unweave.types import UserError, unknown_name

LINKS = ("sigmoid", "identity")


class Layout(nn.Module):
    """A method with its letters, the sizes of its networks' ends, and codes as metrics see them."""

    def __init__(self, method: str, num_latents: int, link: str, letters: dict[str, Any]) -> None:
        super().__init__()
        self.method = canonical(method)
        self.num_latents = int(num_latents)
        if self.num_latents < 1:
            raise UserError(f"num_latents={num_latents} must be at least 1")
        if link not in LINKS:
            raise unknown_name("link", link, LINKS)
        self.link = link
        self.letters: dict[str, Any] = dict(complete(self.method, letters))
        self._posterior = METHODS[self.method].posterior

    @property
    def head_size(self) -> int:
        """Numbers that the encoder must give: means, log-variances, logits of classes."""
        return self._posterior.head_size(self.num_latents, self.letters)

    @property
    def code_size(self) -> int:
        """Numbers that the decoder gets."""
        return self._posterior.code_size(self.num_latents, self.letters)

    @property
    def num_values(self) -> tuple[int, ...]:
        """For each column of `codes`: 0 if continuous, else the number of its classes."""
        return self._posterior.num_values(self.num_latents, self.letters)

    def head(self, given: Tensor | tuple[Tensor, ...] | list[Tensor]) -> Tensor:
        """An encoder's output as one tensor: it may be (mu, logvar) or (mu, logvar, logits...)."""
        head = torch.cat(tuple(given), -1) if isinstance(given, tuple | list) else given
        if head.ndim != 2 or head.shape[-1] != self.head_size:
            raise UserError(f"{self.method} with {self.num_latents} latents reads an encoder's "
                            f"output of shape [batch, {self.head_size}], got {list(head.shape)}")
        return head

    def codes(self, given: Tensor | tuple[Tensor, ...] | list[Tensor]) -> Tensor:
        """Codes as metrics see them: means, then the most probable class of each category."""
        return self._posterior.codes(self.head(given), self.letters)

    def embed(self, codes: Tensor) -> Tensor:
        """What the decoder gets for codes as `codes` gives them."""
        return self._posterior.embed(codes, self.letters)

    def mean(self, output: Tensor) -> Tensor:
        """The mean of p(x|z) from what the decoder gave."""
        return torch.sigmoid(output) if self.link == "sigmoid" else output

    def extra_repr(self) -> str:
        """The method and its letters."""
        said = ", ".join(f"{k}={v}" for k, v in self.letters.items())
        return f"{self.method}, num_latents={self.num_latents}{', ' if said else ''}{said}"
