"""Disentangler: every method as a scikit-learn transformer.

    codes = Disentangler(method="beta_tcvae", n_components=10, letters={"beta": 6}).fit_transform(X)

X is images `(n, height, width[, channel])`, bytes or fractions; the same flattened, with
`image_shape`; or plain vectors `(n, feature)`, for which the networks are dense and the likelihood
is a normal one around the decoder's output. Vectors are not scaled here: put a StandardScaler
before. The loop is an ordinary one around `unweave.torch.VAE`, or `Game`; for studies and stacks
use `unweave.train`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, no_type_check

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor, nn

from unweave.metrics import score as score_codes
from unweave.objectives import METHODS
from unweave.torch import VAE, Game, networks, players
from unweave.torch.layout import Layout
from unweave.training.run import choose_device
from unweave.types import UserError, unknown_name

__all__ = ["Disentangler"]

_CHUNK = 1024
LIKELIHOODS = ("auto", "bernoulli", "gaussian", "laplace", "normal")


class Disentangler(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A disentangling autoencoder as a transformer: X to codes, and back.

    Parameters
    ----------
    method : a method of `unweave methods`; `letters` are its hyper-parameters, `{"beta": 6}`.
    n_components : number of latents.
    image_shape : (height, width) or (height, width, channels) of flattened images; None for
        vectors, or where X has three or four axes.
    architecture : of images; `auto` is conv64 where 16 divides height and width, else dense.
    hidden_sizes : of the dense networks, for vectors.
    likelihood : `auto` is bernoulli for images, `normal` (unit variance around the decoder's
        output) for vectors; bernoulli, gaussian and laplace want values in [0, 1].
    n_steps : updates in `fit`; `partial_fit` makes one for each batch of what it is given. Of
        `vade` the first `pretrain_steps`, at most half, are those of an autoencoder, to whose codes
        the mixture is then fitted (`partial_fit`: its whole first call).
    batch_size, learning_rate, device, random_state : as everywhere.

    Attributes
    ----------
    model_ : the `unweave.torch.VAE` (`Game` for infogan and its like); `image_shape_`;
    n_steps_ : updates so far;
    loss_curve_ : the loss of each update, in nats per sample.
    """

    @no_type_check  # scikit-learn wants values checked in fit, not here
    def __init__(self, method: str = "beta_vae", n_components: int = 10, *,
                 letters: Mapping[str, Any] | None = None,
                 image_shape: Sequence[int] | None = None, architecture: str = "auto",
                 hidden_sizes: Sequence[int] = (256, 256), likelihood: str = "auto",
                 n_steps: int = 10_000, batch_size: int = 64, learning_rate: float = 1e-3,
                 device: str = "auto", random_state: Any = None) -> None:
        self.method = method
        self.n_components = n_components
        self.letters = letters
        self.image_shape = image_shape
        self.architecture = architecture
        self.hidden_sizes = hidden_sizes
        self.likelihood = likelihood
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Disentangler:
        """Train from scratch; `y` is not used."""
        rows = self._open(X, fresh=True)
        with self._drawing():
            order, position, size = self._random.permutation(len(rows)), 0, self._batch(rows)
            self._warmup = self._warmup_within(self.n_steps)
            for step in range(self.n_steps):
                if self._warmup and step == self._warmup:
                    self._fit_prior(rows)
                if position + size > len(rows):
                    order, position = self._random.permutation(len(rows)), 0
                self._update(rows[order[position:position + size]])
                position += size
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Disentangler:
        """One pass over X from where training stands; the first call begins it."""
        fresh = not hasattr(self, "model_")
        rows = self._open(X, fresh=fresh)
        with self._drawing():
            order, size = self._random.permutation(len(rows)), self._batch(rows)
            starts = range(0, len(rows) - size + 1, size)
            if fresh and self._warmup_within(2 * len(starts)):
                self._warmup = len(starts)
            for start in starts:
                self._update(rows[order[start:start + size]])
            if fresh and self._warmup:
                self._fit_prior(rows)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Codes `(n, code)`: means of q(z|x), then the class of each categorical latent."""
        check_is_fitted(self)
        rows, objective = self._rows(X, fresh=False), self._objective
        encoder = self._in_type_of(self.model_.encoder, rows)
        return self._in_chunks(rows, lambda x: objective.codes(encoder(self._shaped(x))))

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Mean data of codes, in the shape in which the data came: images or rows."""
        check_is_fitted(self)
        codes, objective = check_array(X, dtype=[np.float64, np.float32]), self._objective
        if codes.shape[1] != self._n_features_out:
            raise UserError(f"X has {codes.shape[1]} features, but the codes of this Disentangler "
                            f"have {self._n_features_out}")
        decoder = self._in_type_of(self._decoder, codes)
        made = self._in_chunks(
            codes, lambda z: objective.mean(decoder(objective.embed(z))))
        if self.image_shape_ is None:
            return made
        made = np.ascontiguousarray(made.transpose(0, 2, 3, 1))
        return made.reshape(len(made), *self._shape_of_one)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean evidence lower bound of X in nats per sample, at draws that are always the same.

        Higher is better, and comparable between methods and strengths; `y` is not used. For scores
        against factors see `disentanglement`. Generators (infogan, infowgan_gp) have no such bound.
        """
        check_is_fitted(self)
        if isinstance(self.model_, Game):
            raise UserError(f"{self.method} makes data without a density, so there is no bound to "
                            "score by: use disentanglement(X, factors), or a scoring of your own")
        rows, total = self._rows(X, fresh=False), 0.0
        with self._drawing(seed=0), torch.inference_mode():
            self.model_.eval()
            for start in range(0, len(rows), _CHUNK):
                x = self._shaped(self._tensor(rows[start:start + _CHUNK]).float())
                _, terms = self.model_.loss(x, dataset_size=self.n_samples_seen_)
                total += float(terms["elbo"]) * len(x)
        return total / len(rows)

    def disentanglement(self, X: Any, factors: Any, **options: Any) -> dict[str, float]:
        """Scores of the codes of X against factors: `unweave.score` and its options."""
        return score_codes(np.asarray(self.transform(X)), factors,
                           num_values=self._objective.num_values, **options)

    @property
    def _objective(self) -> Layout:
        """What knows codes: a VAE's objective, or a game itself."""
        return self.model_ if isinstance(self.model_, Game) else self.model_.objective

    @property
    def _decoder(self) -> nn.Module:
        return self.model_.generator if isinstance(self.model_, Game) else self.model_.decoder

    @property
    def _n_features_out(self) -> int:
        return len(self._objective.num_values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _rows(self, X: Any, *, fresh: bool) -> np.ndarray:
        """X as numbers `(n, feature)`, bytes of images as fractions; what cannot be is refused."""
        ndim = X.ndim if hasattr(X, "ndim") else np.ndim(X) if isinstance(X, list) else 2
        shape = None if self.image_shape is None else tuple(int(s) for s in self.image_shape)
        if ndim in (3, 4):
            X = np.asarray(X)
            if shape is not None and shape != X.shape[1:]:
                raise UserError(f"X holds images of {X.shape[1:]}, but image_shape is {shape}")
            shape = X.shape[1:]
            X = X.reshape(len(X), -1)
        rows = validate_data(self, X, reset=fresh, dtype="numeric")
        whole = None if shape is None else (*shape, 1) if len(shape) == 2 else shape
        if whole is not None and (len(whole) != 3 or math.prod(whole) != rows.shape[1]):
            raise UserError(f"image_shape {shape} does not make {rows.shape[1]} features: give "
                            "(height, width) or (height, width, channels)")
        if fresh:
            self.image_shape_ = whole
            self._shape_of_one = rows.shape[1:] if ndim == 2 else shape
        elif ndim > 2 and whole != self.image_shape_:
            raise UserError(f"X holds images of {whole}, but this Disentangler was trained on "
                            f"{'vectors' if self.image_shape_ is None else self.image_shape_}")
        if self.image_shape_ is not None and rows.dtype == np.uint8:
            rows = rows.astype(np.float32) / np.float32(255)
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        if self._likelihood() != "normal" and len(rows) and (rows.min() < 0 or rows.max() > 1):
            raise UserError(f"a {self._likelihood()} likelihood wants values in [0, 1], got "
                            f"{rows.min():g} to {rows.max():g}: rescale X, give bytes, or use "
                            "likelihood='normal'")
        return rows

    def _likelihood(self) -> str:
        if self.likelihood not in LIKELIHOODS:
            raise unknown_name("likelihood", self.likelihood, LIKELIHOODS)
        auto = "normal" if self.image_shape_ is None else "bernoulli"
        return auto if self.likelihood == "auto" else self.likelihood

    def _open(self, X: Any, *, fresh: bool) -> np.ndarray:
        """The rows to train on; a new model if it is to be fresh."""
        for name in ("n_components", "n_steps", "batch_size"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise UserError(f"{name}={value!r} must be a whole number of at least 1")
        rows = self._rows(X, fresh=fresh)
        if not fresh:
            self.n_samples_seen_ += len(rows)
            self.model_.train()
            return rows
        self._random = check_random_state(self.random_state)
        self.n_samples_seen_, self.n_steps_ = len(rows), 0
        self.loss_curve_: list[float] = []
        with self._drawing():
            self.model_ = self._build(rows.shape[1]).to(choose_device(self.device)).train()
        self._optimisers, self._warmup = self.model_.optimisers(self.learning_rate), 0
        return rows

    def _warmup_within(self, num_steps: int) -> int:
        """Updates of an autoencoder that a method wants first: at most half of all."""
        return min(int(self._objective.letters.get("pretrain_steps", 0)), num_steps // 2)

    def _fit_prior(self, rows: np.ndarray) -> None:
        """The mixture from the codes so far; Adam begins anew."""
        self.model_.fit_prior(self._shaped(self._tensor(rows).float()), chunk=_CHUNK)
        self._optimisers = self.model_.optimisers(self.learning_rate)

    def _build(self, num_features: int) -> VAE | Game:
        letters, likelihood = dict(self.letters or {}), self._likelihood()
        link = "identity" if likelihood == "normal" else "sigmoid"
        sizes = Layout(self.method, self.n_components, link, letters)
        is_game = METHODS[sizes.method].game is not None
        shape, name = self.image_shape_, self.architecture
        if name == "auto" and shape is not None and shape[0] % 16 == shape[1] % 16 == 0:
            name = "conv64"
        if name != "auto" and shape is not None:
            make = players if is_game else networks
            parts = make(name, shape, num_latents=self.n_components, method=self.method, **letters)
        else:
            parts = _dense_networks(num_features, self.hidden_sizes, sizes, shape, is_game)
        if is_game:
            return Game(self.method, *parts, num_latents=self.n_components, link=link, **letters)
        return VAE(self.method, *parts, num_latents=self.n_components, link=link,
                   likelihood="gaussian" if likelihood == "normal" else likelihood, **letters)

    def _update(self, rows: np.ndarray) -> None:
        """One step on one batch, of the model and, where there is one, of its critic."""
        x = self._shaped(self._tensor(rows).float())
        own, *critics = self._optimisers
        if isinstance(self.model_, Game):
            for _ in range(self.model_.critic_steps):
                _step(critics[0], self.model_.critic_loss(x)[0])
            loss, _ = self.model_.generator_loss()
        elif self.n_steps_ < self._warmup:
            loss, _ = self.model_.autoencoder_loss(x)
        else:
            loss, _ = self.model_.loss(x, dataset_size=self.n_samples_seen_)
            rate = self._objective.rate(self.n_steps_ - self._warmup)
            own.param_groups[0]["lr"] = self.learning_rate * rate
        _step(own, loss)
        if critics and not isinstance(self.model_, Game):
            _step(critics[0], self.model_.critic_loss()[0])
        self.loss_curve_.append(float(loss.detach()))
        self.n_steps_ += 1
        if not math.isfinite(self.loss_curve_[-1]):
            raise UserError(f"training diverged at step {self.n_steps_}: scale X (a StandardScaler "
                            "before), or use a smaller learning_rate")

    def _batch(self, rows: np.ndarray) -> int:
        return min(self.batch_size, len(rows))

    def _tensor(self, rows: np.ndarray) -> Tensor:
        device = next(self.model_.parameters()).device
        return torch.from_numpy(np.array(rows, order="C")).to(device)  # a copy: X may be read-only

    def _shaped(self, x: Tensor) -> Tensor:
        """Rows as the networks take them: images channels first."""
        if self.image_shape_ is None:
            return x
        return x.unflatten(1, self.image_shape_).permute(0, 3, 1, 2)

    def _in_type_of(self, network: nn.Module, rows: np.ndarray) -> nn.Module:
        """A network for inference: of vectors in float64 in float64, which rounds alike for any
        number of rows; of images always in float32.
        """
        if self.image_shape_ is None and rows.dtype == np.float64:
            network = copy.deepcopy(network).double()
        return network.eval()

    def _in_chunks(self, rows: np.ndarray, apply: Any) -> np.ndarray:
        kind = torch.float32 if self.image_shape_ is not None or rows.dtype == np.float32 \
            else torch.float64
        with torch.inference_mode():
            parts = [apply(self._tensor(rows[start:start + _CHUNK]).to(kind)).cpu().numpy()
                     for start in range(0, len(rows), _CHUNK)]
        return np.concatenate(parts).astype(rows.dtype, copy=False)

    @contextmanager
    def _drawing(self, seed: int | None = None) -> Iterator[None]:
        """Torch's random numbers from the estimator's own, the user's put back in the end."""
        seed = int(self._random.randint(2**31)) if seed is None else seed
        devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def _dense_networks(num_features: int, hidden: Sequence[int], sizes: Layout,
                    shape: tuple[int, ...] | None, is_game: bool) -> list[nn.Sequential]:
    """An encoder and a decoder, and for a game a critic, which shares the encoder's layers."""
    encoder = _dense([num_features, *hidden, sizes.head_size])
    decoder = _dense([sizes.code_size, *reversed(hidden), num_features])
    if shape is not None:
        encoder = nn.Sequential(nn.Flatten(), *encoder)
        decoder = nn.Sequential(*decoder, nn.Unflatten(1, (shape[2], *shape[:2])))
    if not is_game:
        return [encoder, decoder]
    return [encoder, decoder, nn.Sequential(*encoder[:-1], nn.Linear(encoder[-1].in_features, 1))]


def _dense(sizes: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
