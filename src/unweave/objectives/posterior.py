"""Posteriors: from the encoder's raw output (the head) to codes.

One layout serves all: means, log-variances, then the logits of each categorical latent in turn.
The Gaussian posterior is the one without categorical latents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from unweave.objectives.letter import Count, Sizes, pick, trailing
from unweave.types import Positive

Categories = Annotated[str, Sizes()]
"""The number of values of each categorical latent: "10", or "10,3" for two."""


class Draw(NamedTuple):
    """Codes of a batch: `Forward`'s fields of the same names."""

    z: Tensor
    mu: Tensor
    logvar: Tensor
    category_logits: tuple[Tensor, ...] = ()
    categories: tuple[Tensor, ...] = ()

    def decoder_input(self) -> Tensor:
        """What the decoder sees: z, then the relaxed one-hot samples."""
        return torch.cat([self.z, *self.categories], -1) if self.categories else self.z


def no_noise() -> int:
    """Decoders see codes alone."""
    return 0


@dataclass(frozen=True)
class Posterior:
    """How a head becomes codes. `letters` are all the letters of a run or a stack."""

    function: Callable[..., Draw]
    """(head, noise, uniform, *, its letters) -> Draw"""
    categorical: Callable[..., tuple[int, ...]]
    """(*, its letters) -> the number of values of each categorical latent"""
    noise: Callable[..., int] = no_noise
    """(*, its letters) -> numbers that the decoder gets beside the code"""

    def sizes(self, letters: Mapping[str, Any]) -> tuple[int, ...]:
        """The number of values of each categorical latent."""
        return self.categorical(**pick(self.categorical, letters))

    def head_size(self, num_latents: int, letters: Mapping[str, Any]) -> int:
        """Numbers that the encoder must give for an image."""
        return 2 * num_latents + sum(self.sizes(letters))

    def code_size(self, num_latents: int, letters: Mapping[str, Any]) -> int:
        """Numbers that the decoder gets for an image."""
        return num_latents + sum(self.sizes(letters)) + self.num_noise(letters)

    def num_noise(self, letters: Mapping[str, Any]) -> int:
        """Numbers of noise that the decoder gets for an image, beside its code."""
        return self.noise(**pick(self.noise, letters))

    def num_uniform(self, letters: Mapping[str, Any]) -> int:
        """Uniform random numbers that a draw needs for an image, beside the normal ones."""
        return sum(self.sizes(letters))

    def num_values(self, num_latents: int, letters: Mapping[str, Any]) -> tuple[int, ...]:
        """For each code that metrics see: its number of values if categorical, else 0."""
        return (0,) * num_latents + self.sizes(letters)

    def draw(self, head: Tensor, noise: Tensor, uniform: Tensor,
             letters: Mapping[str, Any]) -> Draw:
        """Codes of a batch from its head and random numbers."""
        return self.function(head, noise, uniform, **pick(self.function, letters))

    def codes(self, head: Tensor, letters: Mapping[str, Any]) -> Tensor:
        """The codes that metrics see: means, then the most probable class of each categorical."""
        mu, _, logits = split_head(head, self.sizes(letters))
        classes = [c.argmax(-1, keepdim=True).to(mu.dtype) for c in logits]
        return torch.cat([mu, *classes], -1) if classes else mu

    def embed(self, codes: Tensor, letters: Mapping[str, Any],
              noise: Tensor | None = None) -> Tensor:
        """What the decoder gets for codes as `codes` gives them: classes as one-hot vectors.

        `noise`, where the decoder takes any, has the codes' leading axes or can be spread to them.
        """
        sizes = self.sizes(letters)
        num_latents = codes.shape[-1] - len(sizes)
        parts = [codes[..., :num_latents]]
        for j, size in enumerate(sizes):
            values = torch.arange(size, device=codes.device)
            parts.append((codes[..., num_latents + j, None] == values).to(codes.dtype))
        if noise is not None:
            parts.append(noise.to(codes.dtype).expand(*codes.shape[:-1], noise.shape[-1]))
        return torch.cat(parts, -1) if len(parts) > 1 else codes


def split_head(head: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Means, log-variances and the logits of each categorical latent."""
    num_latents = (head.shape[-1] - sum(sizes)) // 2
    mu, logvar, *logits = torch.split(head, [num_latents, num_latents, *sizes], -1)
    return mu, logvar, tuple(logits)


def gumbel(uniform: Tensor) -> Tensor:
    """Standard Gumbel draws, -log(-log u), of uniform numbers in [0, 1).

    The uniforms have 24 bits; 0 becomes half their step and 1, which rounding may give, the last
    number below it, so that draws lie between -2.9 and 16.7.
    """
    return -torch.log(-torch.log(uniform.clamp(2.0**-25, 1.0 - 2.0**-24)))


def gaussian_posterior(head: Tensor, noise: Tensor, uniform: Tensor) -> Draw:
    """Z = mu + exp(logvar / 2) noise. Kingma & Welling 2014, eq. 10. `uniform` is not used."""
    mu, logvar = head.chunk(2, -1)
    return Draw(mu + torch.exp(0.5 * logvar) * noise, mu, logvar)


def no_categories() -> tuple[int, ...]:
    """The Gaussian posterior has continuous latents alone."""
    return ()


def joint_posterior(head: Tensor, noise: Tensor, uniform: Tensor, *, temperature: Positive = 0.67,
                    categories: Categories = "10") -> Draw:
    """Gaussian latents, and categorical ones relaxed. Dupont 2018; Kaddah 2020, section 2.2.

    y = softmax((logits + g) / temperature) with standard Gumbel g (Jang et al. 2017).

    `temperature`: of the relaxation; towards 0 samples become one-hot and gradients noisy.
    `categories`: the number of values of each categorical latent, "10" or "10,3".
    """
    mu, logvar, logits = split_head(head, category_sizes(categories=categories))
    uniforms = torch.split(uniform, [c.shape[-1] for c in logits], -1)
    scale = trailing(temperature, 2)
    relaxed = tuple(torch.softmax((c + gumbel(u)) / scale, -1) for c, u in zip(logits, uniforms))
    return Draw(mu + torch.exp(0.5 * logvar) * noise, mu, logvar, logits, relaxed)


def category_sizes(*, categories: Categories = "10") -> tuple[int, ...]:
    """The numbers in "10,3"."""
    return Sizes().parse(categories)


def code_posterior(head: Tensor, noise: Tensor, uniform: Tensor, *,
                   categories: Categories = "10") -> Draw:
    """Q(c|x) of a generator's codes: Gaussian codes, and classes as drawn. Chen et al. 2016.

    `categories`: the number of values of each categorical code, "10" or "10,3"; "1" for none.
    """
    mu, logvar, logits = split_head(head, category_sizes(categories=categories))
    uniforms = torch.split(uniform, [c.shape[-1] for c in logits], -1)
    drawn = tuple(torch.nn.functional.one_hot((c + gumbel(u)).argmax(-1), c.shape[-1]).to(c.dtype)
                  for c, u in zip(logits, uniforms))
    return Draw(mu + torch.exp(0.5 * logvar) * noise, mu, logvar, logits, drawn)


def noise_size(*, num_noise: Count = 62) -> int:
    """`num_noise`: numbers of N(0, 1) that the generator gets beside its codes."""
    return num_noise


GAUSSIAN = Posterior(gaussian_posterior, no_categories)
JOINT = Posterior(joint_posterior, category_sizes)
CODES = Posterior(code_posterior, category_sizes, noise_size)
