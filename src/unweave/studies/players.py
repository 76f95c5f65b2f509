"""Studies of the methods beyond the Gaussian VAE: Kim & Mnih's of InfoGAN, and VaDE.

As in `catalog.py`: functions of data sets and seeds that return runs. Pictures of their runs are
made by `unweave show` (`noise`, `seeds`, `losses`) from runs whose weights were kept (`--weights
all`), or that `unweave train` made with the same settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unweave.config import RunConfig
from unweave.data import parse_spec
from unweave.training import plan

_GAMES = (("infogan", "infogan"), ("infowgan_gp", "infowgan"))

# Kim & Mnih 2018, appendix H: the generator at 1e-3, the critic at 1e-4.
_RATE = 1e-3


def _games_on(data: str, methods: Sequence[tuple[str, str]] = _GAMES, **given: Any,
              ) -> list[RunConfig]:
    """Runs with the settings that the paper has for digits, or else those for 2D Shapes.

    Digits: table 4, two codes, one category of ten values and 62 numbers of noise. 2D Shapes: table
    5, four codes, one category of three values and 5 numbers of noise.
    """
    digits = parse_spec(data)[0].endswith("mnist")
    usual = {"num_latents": 2} if digits else {"num_latents": 4, "categories": "3", "num_noise": 5}
    common = {"learning_rate": _RATE} | usual | given
    table = "mnist" if digits else "shapes2d"
    return [config for method, network in methods
            for config in plan(method, data, architecture=f"{network}-{table}", **common)]


def _sprites(data: str, network: str, **given: Any) -> list[RunConfig]:
    """Runs of infowgan_gp on 2D Shapes: four codes, one category of three values."""
    return plan("infowgan_gp", data, architecture=network, learning_rate=_RATE, num_latents=4,
                categories="3", num_noise=128 if network.endswith("big") else 5, **given)


def infogan_seeds(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
                  steps: int = 50_000) -> list[RunConfig]:
    """InfoGAN and InfoWGAN-GP on MNIST over seeds: what codes and noise come to mean.

    Command: unweave study run infogan_seeds --data mnist,size=28 --weights all --store S
    Time: 35 minutes of an H200 by `unweave study cost`, most of them InfoWGAN-GP's.
    Result: traversals (figures 25 and 36) and reconstructions with the noise varied (figure 26);
        how often the category is the digit.
    Source: Kim & Mnih 2018, appendix H.
    """
    return [c for name in data for c in _games_on(name, seeds=seeds, device=device, steps=steps)]


def infogan_codes(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
                  steps: int = 50_000) -> list[RunConfig]:
    """InfoGAN on MNIST with other numbers of codes and of categories.

    Command: unweave study run infogan_codes --data mnist,size=28 --weights all --store S
    Time: 25 minutes of an H200 by `unweave study cost`.
    Result: with three codes (figure 27), and with 2 and 20 categories (28 to 31), digits move
        between codes, category and noise.
    Source: Kim & Mnih 2018, appendix H.
    """
    common = {"seeds": seeds, "device": device, "steps": steps, "methods": _GAMES[:1]}
    return [c for name in data for c in (
        *_games_on(name, **common), *_games_on(name, **common | {"num_latents": 3}),
        *_games_on(name, **common | {"categories": ["2", "20"]}))]


def infogan_lambda(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
                   steps: int = 100_000) -> list[RunConfig]:
    """InfoWGAN-GP on 2D Shapes over lambda, with the small and the bigger network.

    Command: unweave study run infogan_lambda --seeds 0..9 --store S
    Time: 66 hours of an H200 by `unweave study cost`, 63 of them the bigger network's.
    Result: the scores of figures 8 (table 5) and 34 (table 6), low at every lambda.
    Source: Kim & Mnih 2018, section 6 and appendix H.
    """
    grid = [round(0.1 * i, 1) for i in range(11)]
    return [c for name in data for network in ("infowgan-shapes2d", "infowgan-shapes2d-big")
            for c in _sprites(name, network, lambda_mi=grid, seeds=seeds, device=device,
                              steps=steps)]


def infogan_stability(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
                      steps: int = 100_000) -> list[RunConfig]:
    """The discriminator of InfoGAN beside the critic of InfoWGAN-GP, through training.

    Command: unweave study run infogan_stability --data mnist,size=28,dsprites --store S
    Time: 2 hours of an H200 by `unweave study cost`.
    Result: curves. InfoGAN's discriminator comes to call everything real (figure 24:
        critic_fake_right to 0); InfoWGAN-GP's losses settle, on MNIST (figure 32) and on 2D Shapes
        (figure 33).
    Source: Kim & Mnih 2018, appendix H; with a slower discriminator, which delays it.
    """
    found = []
    for name in data:
        common = {"seeds": seeds, "device": device, "steps": steps}
        found += _games_on(name, **common)
        found += _games_on(name, _GAMES[:1], critic_rate=1e-5, **common)
    return found


def jiang2017(data: Sequence[str], seeds: Sequence[int], device: str = "auto",
              steps: int | None = None) -> list[RunConfig]:
    """VaDE on MNIST: clustering accuracy over seeds, and the scores of its codes.

    Command: unweave study run jiang2017 --data mnist,size=28,split=all --seeds 0..9 --store S
    Time: 5.5 minutes of an H200 by `unweave study cost`.
    Result: the paper has an accuracy of 0.94, ours over 20 seeds a median of 0.85 and a best of
        0.93 after 80 epochs (docs/methods/vade.md); little disentanglement (Kaddah 2020).
    Source: Jiang et al. 2017, section 4: 70,000 images, batch 100, 300 epochs, Adam at 2e-3
        decaying by 0.9 every 10 epochs; an autoencoder and a mixture to start from.
    """
    return [c for name in data for c in plan(
        "vade", name, seeds=seeds, device=device, steps=steps or 210_000, batch_size=100,
        learning_rate=2e-3, architecture="jiang2017")]
