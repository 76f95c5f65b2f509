"""Our architectures and runs as plain modules of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from unweave.nn import ARCHITECTURES
from unweave.nn.architectures import architecture as architecture_named
from unweave.nn.plain import plain_networks, to_plain
from unweave.objectives import METHODS
from unweave.torch.layout import Layout

if TYPE_CHECKING:
    from unweave.training import Run


def networks(name: str, image_shape: tuple[int, int, int], *, num_latents: int,
             method: str = "beta_vae", **letters: Any) -> tuple[nn.Sequential, nn.Sequential]:
    """A fresh encoder and decoder of an architecture of ours, such as `conv64`, as plain modules.

    `image_shape` is (height, width, channels); the modules see `[batch, channel, height, width]`.
    """
    shape = Layout(method, num_latents, "sigmoid", letters)
    return plain_networks(architecture_named(name), image_shape, shape.head_size, shape.code_size)


def players(name: str, image_shape: tuple[int, int, int], *, num_latents: int,
            method: str = "infowgan_gp", **letters: Any
            ) -> tuple[nn.Sequential, nn.Sequential, nn.Sequential]:
    """An encoder, a generator and a critic for `Game`, such as those of `infowgan-mnist`.

    The critic shares the encoder's first layers, as in training.
    """
    encoder, generator = networks(name, image_shape, num_latents=num_latents, method=method,
                                  **letters)
    architecture = architecture_named(name)
    last = architecture.encoder[architecture.num_shared - 1]
    critic = nn.Sequential()
    for own, part in encoder.named_children():
        critic.add_module(own, part)
        if own == (last.name if last.activation == "none" else f"{last.name}_{last.activation}"):
            break
    if "flatten" not in dict(critic.named_children()):
        critic.add_module("flatten", nn.Flatten())
    critic.add_module("out", nn.Linear(architecture.trunk_size(image_shape), 1))
    return encoder, generator, critic


class RunModule(nn.Module):
    """A trained run as a module: images `[batch, channel, height, width]` in [0, 1].

    Computes in float32 whatever the run was trained in. `encoder` gives the head (means, then
    log-variances, then logits of classes), `decoder` logits. A generator also gets noise: `noise`,
    the one draw that the run uses for all images, unless `decode` is given others.
    """

    def __init__(self, encoder: nn.Sequential, decoder: nn.Sequential,
                 sizes: tuple[int, ...], num_latents: int, noise: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("noise", noise)
        self.encoder, self.decoder = encoder, decoder
        self.sizes, self.num_latents = sizes, num_latents

    def encode(self, x: Tensor) -> Tensor:
        """Codes: means, then the most probable class of each categorical latent."""
        mu, _, *logits = self._split(x)
        return torch.cat([mu, *[c.argmax(-1, keepdim=True).to(mu.dtype) for c in logits]], -1)

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log-variances of the continuous latents."""
        return self._split(x)[:2]

    def decode(self, codes: Tensor, noise: Tensor | None = None) -> Tensor:
        """Mean images of codes as `encode` gives them; `noise` is `[batch, noise]`."""
        parts = [codes[:, :self.num_latents]]
        for j, size in enumerate(self.sizes):
            column = codes[:, self.num_latents + j].long()
            parts.append(nn.functional.one_hot(column, size).to(codes.dtype))
        noise = self.noise if noise is None else noise
        if noise is not None:
            parts.append(noise.to(codes).expand(len(codes), noise.shape[-1]))
        return torch.sigmoid(self.decoder(torch.cat(parts, -1)))

    def forward(self, x: Tensor) -> Tensor:
        """Reconstructions."""
        return self.decode(self.encode(x))

    def _split(self, x: Tensor) -> tuple[Tensor, ...]:
        widths = [self.num_latents, self.num_latents, *self.sizes]
        return torch.split(self.encoder(x), widths, -1)


def module(run: Run) -> RunModule:
    """The encoder and decoder of a run as plain modules with its weights, in evaluation mode."""
    posterior, letters = METHODS[run.config.method].posterior, dict(run.config.hyper)
    num_latents, shape = run.config.num_latents, run.dataset.image_shape
    sizes = posterior.head_size(num_latents, letters), posterior.code_size(num_latents, letters)
    architecture = ARCHITECTURES[run.config.architecture]
    noise = torch.from_numpy(run.generator_noise()) if run.is_generator else None
    made = RunModule(*plain_networks(architecture, shape, *sizes), posterior.sizes(letters),
                     num_latents, noise)
    weights = {name: p.detach()[0].float().cpu() for name, p in run.params.items()}
    made.load_state_dict(to_plain(architecture, shape, *sizes, weights)
                         | ({} if noise is None else {"noise": noise}))
    return made.eval()
