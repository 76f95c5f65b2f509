"""Every method in your own PyTorch loop: any encoder, any decoder, images, vectors or sequences.

    model = unweave.torch.VAE("beta_tcvae", encoder, decoder, num_latents=10, beta=6,
                              dataset_size=len(data))
    loss, terms = model.loss(x)
    loss.backward()

`Objective` is the same without the networks: it draws codes from an encoder's output and weighs
what a decoder made of them. `Game` is for the methods with two players, a generator and a critic of
images. `module` is a trained run as a plain module. Nothing here owns an optimiser or a loop;
random numbers come from torch, so `torch.manual_seed` decides them.
"""

from unweave.objectives import Draw
from unweave.torch.game import Game
from unweave.torch.layout import LINKS
from unweave.torch.networks import RunModule, module, networks, players
from unweave.torch.objective import VAE, Objective

__all__ = ["LINKS", "VAE", "Draw", "Game", "Objective", "RunModule", "module", "networks",
           "players"]
