"""A run as a file of plain PyTorch: `model.py`, which needs torch and nothing of unweave.

The layers are written as PyTorch itself prints them, so the file says what the network is. Weights
go beside it, under the same names.
"""

from __future__ import annotations

from unweave.torch import RunModule, module
from unweave.training import Run
from unweave.version import __version__

_TEXT = '''"""{title}: a plain PyTorch model, written by unweave {version}.

Images are [batch, {channels}, {height}, {width}], floats in [0, 1]. Run {run_id}.
"""

import torch
from torch import nn


class Model(nn.Module):
    """An encoder to {latents} and a decoder back."""

    num_latents = {num_latents}
    categories = {categories}  # classes of each categorical latent

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential()
{encoder}
        self.decoder = nn.Sequential()
{decoder}{noise}

    def heads(self, images):
        """Means, log-variances, then the logits of each categorical latent."""
        sizes = [self.num_latents, self.num_latents, *self.categories]
        return torch.split(self.encoder(images), sizes, dim=-1)

    def encode(self, images):
        """Codes: means, then the most probable class of each categorical latent."""
        mu, _, *logits = self.heads(images)
        return torch.cat([mu, *[c.argmax(-1, keepdim=True).to(mu.dtype) for c in logits]], -1)

    def decode(self, codes{noise_argument}):
        """Mean images of codes{noise_said}."""
        parts = [codes[:, :self.num_latents]]
        for j, size in enumerate(self.categories):
            column = codes[:, self.num_latents + j].long()
            parts.append(nn.functional.one_hot(column, size).to(codes.dtype)){noise_used}
        return torch.sigmoid(self.decoder(torch.cat(parts, -1)))

    def forward(self, images):
        """Reconstructions."""
        return self.decode(self.encode(images))
'''

_NOISE = """
        self.register_buffer("noise", torch.zeros(1, {size}))  # comes with the weights"""
_NOISE_USED = """
        noise = self.noise if noise is None else noise
        parts.append(noise.to(codes.dtype).expand(len(codes), -1))"""


def model_source(run: Run) -> str:
    """The text of `model.py`."""
    made = module(run)
    height, width, channels = run.dataset.image_shape
    latents = f"{run.config.num_latents} latents"
    if made.sizes:
        latents += f" and {len(made.sizes)} categorical"
    return _TEXT.format(
        title=run.config.method, version=__version__, channels=channels, height=height,
        width=width, run_id=run.run_id, latents=latents, num_latents=made.num_latents,
        categories=made.sizes, encoder=_layers(made, "encoder"), decoder=_layers(made, "decoder"),
        **_noise_parts(made))


def _noise_parts(made: RunModule) -> dict[str, str]:
    """What a generator's file says more: the noise beside its codes."""
    if made.noise is None:
        return dict.fromkeys(("noise", "noise_argument", "noise_said", "noise_used"), "")
    return {"noise": _NOISE.format(size=made.noise.shape[1]), "noise_argument": ", noise=None",
            "noise_said": "; one draw of noise serves all, unless `noise` has a row for each",
            "noise_used": _NOISE_USED}


def _layers(made: RunModule, side: str) -> str:
    return "\n".join(f"        self.{side}.add_module({name!r}, nn.{layer!r})"
                     for name, layer in getattr(made, side).named_children())
