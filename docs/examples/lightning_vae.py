"""A method of unweave in a LightningModule: any method, with or without a critic.

Run it with Lightning installed (unweave does not need it):

    pip install lightning
    python docs/examples/lightning_vae.py
"""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import unweave.torch


class LitVAE(lightning.LightningModule):
    """Both optimisers are stepped by hand, so that methods with a critic work as well."""

    def __init__(self, method, encoder, decoder, num_latents, learning_rate=1e-3, **options):
        super().__init__()
        self.automatic_optimization = False
        self.learning_rate = learning_rate
        self.vae = unweave.torch.VAE(method, encoder, decoder, num_latents=num_latents, **options)

    def training_step(self, batch, batch_idx):
        """One update of the model, and one of the critic where there is one."""
        (x,) = batch
        optimisers = self.optimizers()
        optimisers = optimisers if isinstance(optimisers, list) else [optimisers]
        for number, optimiser in enumerate(optimisers):
            loss, terms = self.vae.critic_loss() if number else self.vae.loss(x)
            optimiser.zero_grad()
            self.manual_backward(loss)
            optimiser.step()
            # Terms of a single latent (`kl_latent`) are vectors, which Lightning does not log.
            self.log_dict({k: v for k, v in terms.items() if v.ndim == 0})

    def configure_optimizers(self):
        """Adam for the model, and the critic's own."""
        return self.vae.optimisers(self.learning_rate)


def main(method="factor_vae", num_epochs=2, **letters):
    """Train on vectors of two hidden causes, and give the module back."""
    torch.manual_seed(0)
    data = torch.randn(256, 2) @ torch.randn(2, 8) + 0.1 * torch.randn(256, 8)
    encoder = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    decoder = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    module = LitVAE(method, encoder, decoder, num_latents=4, dataset_size=len(data),
                    likelihood="gaussian", link="identity", **letters)
    trainer = lightning.Trainer(max_epochs=num_epochs, accelerator="cpu", logger=False,
                                enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False)
    trainer.fit(module, DataLoader(TensorDataset(data), batch_size=64, shuffle=True))
    return module


if __name__ == "__main__":
    done = main(critic_width=64, critic_depth=2)
    print("updates:", int(done.vae.objective.step))
