"""Forward passes made of random numbers, and the arguments of a method's objective."""

import torch

from unweave.objectives import METHODS, context, declared
from unweave.types import Forward, Play

DATASET_SIZE = 50
TENSORS = ("x", "logits", "z", "mu", "logvar")


def tensors(stack=(), *, batch=5, latent=3, sizes=(4, 2), image=(4, 4, 2), seed=0,
            dtype=torch.float64):
    """All tensors that any objective reads, by name, with leading run axes."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn((*stack, *shape), generator=g, dtype=torch.float64).to(dtype)

    found = {"x": torch.sigmoid(draw(batch, *image)), "logits": draw(batch, *image),
             "mu": draw(batch, latent), "logvar": draw(batch, latent),
             "critic_logits": draw(batch, 2)}
    found["z"] = found["mu"] + torch.exp(0.5 * found["logvar"]) * draw(batch, latent)
    found |= {f"category_{i}": draw(batch, size) for i, size in enumerate(sizes)}
    half = draw(latent, latent)
    found["state_cov"] = half @ half.mT
    found["state_weight"] = torch.sigmoid(draw())
    found |= {"prior_logits": draw(3), "prior_mean": draw(3, latent),
              "prior_logvar": draw(3, latent), "real": draw(batch), "fake": draw(batch),
              "slope": draw(batch).exp()}
    return found


def forward(given, likelihood="bernoulli"):
    categories = tuple(v for k, v in given.items() if k.startswith("category_"))
    relaxed = tuple(torch.softmax(v, -1) for v in categories)
    return Forward(*(given[k] for k in TENSORS), likelihood, categories, relaxed)


def play(given):
    """A turn of two players from the same tensors: z are the codes that were made."""
    logits = tuple(v for k, v in given.items() if k.startswith("category_"))
    made = tuple(torch.softmax(2.0 * v, -1) for v in logits)
    return Play(*(given[k] for k in ("real", "fake", "z", "mu", "logvar")), logits, made,
                given["slope"])


def letters_of(method, stack=(), *, seed=0, dtype=torch.float64, **static):
    """The letters of a method's loss: per-run ones as tensors near their defaults."""
    g = torch.Generator().manual_seed(seed)
    found = {}
    for name, letter in declared(METHODS[method].loss).items():
        factor = 0.5 + 0.5 * torch.rand(stack, generator=g, dtype=torch.float64)
        found[name] = (letter.default * factor).to(dtype) if letter.per_run else letter.default
    return found | {k: v for k, v in static.items() if k in found}


def evaluate(method, given, letters, *, step=700):
    """A method's terms from tensors and letters, with the context that it asks for."""
    facts = {"dataset_size": DATASET_SIZE, "step": step,
             "critic_logits": given["critic_logits"],
             "state": {"cov": given["state_cov"], "weight": given["state_weight"]},
             "prior": {k: given[f"prior_{k}"] for k in ("logits", "mean", "logvar")}}
    asked = {k: v for k, v in facts.items() if k in context(method)}
    out = forward(given) if METHODS[method].game is None else play(given)
    return METHODS[method].loss(out, **letters, **asked)
