"""What every objective keeps, whatever stands in METHODS."""

import pytest
import torch
from passes import evaluate, letters_of, tensors

from unweave.objectives import (
    CONTEXT,
    METHODS,
    aliases,
    canonical,
    complete,
    context,
    declared,
    letters,
)
from unweave.types import UserError

VARIANTS = [(m, {}) for m in METHODS] + [
    ("beta_tcvae", {"sampling": "stratified"}), ("information_dropout", {"sampling": "weighted"}),
    ("dip_vae_i", {"estimate": "running"}), ("dip_vae_ii", {"estimate": "running"}),
]
over_variants = pytest.mark.parametrize(
    ("method", "static"), VARIANTS, ids=["-".join([m, *s.values()]) for m, s in VARIANTS])


@over_variants
def test_a_stack_equals_a_loop_over_its_runs(method, static):
    given, hyper = tensors((3,)), letters_of(method, (3,), **static)
    together = evaluate(method, given, hyper)
    for m in range(3):
        alone = evaluate(method, {k: v[m] for k, v in given.items()},
                         {k: v[m] if torch.is_tensor(v) else v for k, v in hyper.items()})
        assert alone.keys() == together.keys()
        for name in alone:
            torch.testing.assert_close(together[name][m], alone[name], rtol=1e-12, atol=1e-12)


@over_variants
def test_a_stack_equals_vmap_and_so_do_its_gradients(method, static):
    given, hyper = tensors((3,)), letters_of(method, (3,), **static)
    per_run = {k: v for k, v in hyper.items() if torch.is_tensor(v)}
    rest = {k: v for k, v in hyper.items() if k not in per_run}

    def one(given, per_run):
        return evaluate(method, given, per_run | rest)

    together = one(given, per_run)
    mapped = torch.func.vmap(one)(given, per_run)
    for name in together:
        torch.testing.assert_close(together[name], mapped[name], rtol=1e-12, atol=1e-12)
    slopes = torch.func.vmap(torch.func.grad(lambda g, p: one(g, p)["loss"]))(given, per_run)
    leaves = {k: v.clone().requires_grad_() for k, v in given.items()}
    one(leaves, per_run)["loss"].sum().backward()
    for name, leaf in leaves.items():
        expected = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
        torch.testing.assert_close(slopes[name], expected, rtol=1e-10, atol=1e-12)


@over_variants
def test_several_run_axes_and_the_shapes_of_terms(method, static):
    given, hyper = tensors((2, 3)), letters_of(method, (2, 3), **static)
    terms = evaluate(method, given, hyper)
    flat = evaluate(method, {k: v.flatten(0, 1) for k, v in given.items()},
                    {k: v.flatten() if torch.is_tensor(v) else v for k, v in hyper.items()})
    if METHODS[method].game is None:
        assert {"loss", "recon", "kl", "elbo", "kl_latent"} <= terms.keys()
    else:
        assert {"loss", "generator_loss", "critic_loss", "critic_accuracy", "mi"} <= terms.keys()
    for name, value in terms.items():
        torch.testing.assert_close(value.flatten(0, 1), flat[name], rtol=1e-12, atol=1e-12)
        if name.startswith("state."):
            assert value.shape == given[name.replace("state.", "state_")].shape
            assert not value.requires_grad
        else:
            assert value.ndim == (3 if name.endswith("_latent") else 2), name
    if METHODS[method].game is None:
        torch.testing.assert_close(terms["kl_latent"].sum(-1), terms["kl"])
    else:
        whole = terms["mi_latent"].sum(-1) + terms["mi_category"]
        torch.testing.assert_close(whole, terms["mi"])


@over_variants
def test_a_nan_stays_in_its_run_in_values_and_gradients(method, static):
    hyper = letters_of(method, (3,), **static)
    clean, broken = tensors((3,)), tensors((3,))
    for value in broken.values():
        value[1] = float("nan")
    slopes = []
    for given in (clean, broken):
        leaves = {k: v.requires_grad_() for k, v in given.items()}
        terms = evaluate(method, leaves, hyper)
        terms["loss"].sum().backward()
        slopes.append(({k: v.detach() for k, v in terms.items()},
                       {k: v.grad for k, v in leaves.items() if v.grad is not None}))
    for ours, theirs in zip(*slopes):
        for name in ours:
            for m in (0, 2):
                assert torch.equal(ours[name][m], theirs[name][m]), name
    assert torch.isnan(slopes[1][0]["loss"]).tolist() == [False, True, False]


@over_variants
def test_gradients_agree_with_finite_differences(method, static):
    given = tensors(batch=3, latent=2, sizes=(3, 2), image=(1, 2, 1))
    names = [k for k in given if k not in ("x", "state_cov", "state_weight")]

    def loss(*leaves):
        terms = evaluate(method, given | dict(zip(names, leaves)), letters_of(method, **static))
        return terms["loss"] + 0.5 * terms.get("critic_loss", 0.0)

    leaves = [given[k].clone().requires_grad_() for k in names]
    assert torch.autograd.gradcheck(loss, leaves, eps=1e-5, rtol=1e-5, atol=1e-5, fast_mode=True)


@over_variants
def test_no_value_is_read_and_the_type_is_kept(method, static):
    given = {k: v.to("meta", torch.float32) for k, v in tensors((3,)).items()}
    hyper = {k: v.to("meta", torch.float32) if torch.is_tensor(v) else v
             for k, v in letters_of(method, (3,), **static).items()}
    step = torch.tensor(7, device="meta")  # a value read from it would raise
    for name, value in evaluate(method, given, hyper, step=step).items():
        assert value.dtype == torch.float32, name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node")
@over_variants
def test_a_captured_graph_replays_loss_and_gradients(method, static):
    first, second = (
        {k: v.cuda() for k, v in tensors((3,), batch=32, latent=10, seed=s,
                                         dtype=torch.float32).items()} for s in (0, 1))
    hyper = {k: v.cuda() if torch.is_tensor(v) else v
             for k, v in letters_of(method, (3,), dtype=torch.float32, **static).items()}
    uniform = torch.rand(3, 32, 10, device="cuda")
    step = torch.tensor(700, device="cuda")
    names = ("mu", "logvar", "z", "logits", "critic_logits")
    leaves = {k: v.clone().requires_grad_(k in names) for k, v in first.items()}
    wanted = [leaves[k] for k in names]
    critic = METHODS[method].critic

    def compute():
        terms = evaluate(method, leaves, hyper, step=step)
        slopes = torch.autograd.grad(terms["loss"].sum(), wanted, allow_unused=True)
        other = critic.samples(leaves["z"], leaves["z"], uniform)[1] if critic else uniform
        return [*terms.values(), *(s for s in slopes if s is not None), other]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        compute()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = compute()
    with torch.no_grad():
        for k, v in second.items():
            leaves[k].copy_(v)
        step.fill_(1400)
    graph.replay()
    for ours, theirs in zip(captured, compute()):
        torch.testing.assert_close(ours, theirs)


@over_variants
def test_numbers_serve_as_letters_too(method, static):
    given = tensors((2,))
    numbers = {k: float(v) if torch.is_tensor(v) else v
               for k, v in letters_of(method, **static).items()}
    tensor = {k: torch.full((2,), v, dtype=torch.float64) if isinstance(v, float) else v
              for k, v in numbers.items()}
    ours = evaluate(method, given, numbers)
    for name, value in evaluate(method, given, tensor, step=torch.tensor(700)).items():
        torch.testing.assert_close(value, ours[name], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_letters_are_complete_and_distinct(method):
    record = METHODS[method]
    names = [n for f in record.functions for n in declared(f)]
    assert len(names) == len(set(names))
    assert set(names) == set(letters(method)) == set(dict(complete(method, {})))
    assert not set(names) & CONTEXT
    assert ("critic_logits" in context(method)) == (record.critic is not None)
    assert ("state" in context(method)) == (record.state is not None)
    assert ("prior" in context(method)) == (record.prior is not None)
    assert not (record.game and (record.critic or record.prior))
    hyper = dict(complete(method, {}))
    for name, value in complete(method, {k: str(v) for k, v in hyper.items()}):
        assert value == hyper[name]
        assert type(value) is type(hyper[name])


@pytest.mark.parametrize("method", METHODS)
def test_every_letter_refuses_what_it_cannot_be(method):
    for name, letter in letters(method).items():
        bad = ["nonsense", None, float("nan")]
        if letter.per_run:
            bad += [letter.allowed.low - 1.0, float("inf")]
        elif isinstance(letter.default, int):
            bad += [int(letter.allowed.low) - 1, 1.5]
        for value in bad:
            with pytest.raises(UserError) as caught:
                complete(method, {name: value})
            assert name in str(caught.value)
            assert method in str(caught.value)


@pytest.mark.parametrize(("method", "given", "words"), [
    ("annealed_vae", {"gamma": -1.0}, "gamma=-1.0 of annealed_vae must be at least 0"),
    ("annealed_vae", {"anneal_steps": 0}, "anneal_steps=0 of annealed_vae must be more than 0"),
    ("joint_vae", {"temperature": 0}, "temperature=0 of joint_vae must be more than 0"),
    ("joint_vae", {"categories": "10,0"}, "must be whole numbers of at least 1"),
    ("joint_vae", {"categories": ""}, "must be whole numbers"),
    ("joint_vae", {"categories": 2.5}, "must be whole numbers"),
    ("joint_vae", {"categories": ()}, "must be whole numbers"),
    ("beta_tcvae", {"sampling": "stratifed"}, "did you mean 'stratified'"),
    ("factor_vae", {"convention": "study"}, "did you mean 'study2019'"),
    ("factor_vae", {"critic_rate": 0}, "more than 0"),
    ("factor_vae", {"critic_depth": 0}, "at least 1"),
    ("factor_vae", {"critic_beta1": 1.0}, r"\[0, 0.9999\]"),
    ("factor_vae", {"lambda_od": 1.0}, "unknown letter of factor_vae 'lambda_od'"),
    ("dip_vae_i", {"lambda_o": 1.0}, "did you mean 'lambda_od'"),
    ("dip_vae_i", {"momentum": 1.0}, r"\[0, 0.9999\]"),
    ("aae", {"convention": "paper"}, "unknown letter of aae"),
    ("cc_va", {}, "did you mean 'cc_vae'"),
])
def test_refusals_are_a_sentence(method, given, words):
    with pytest.raises(UserError, match=words):
        complete(method, given)


def test_categories_are_stored_in_one_way():
    for value in ("10,3", "10, 3", (10, 3), [10, 3]):
        assert dict(complete("joint_vae", {"categories": value}))["categories"] == "10,3"
    assert dict(complete("joint_vae", {"categories": 7}))["categories"] == "7"


def test_an_alias_is_the_method_that_it_stands_for():
    assert aliases() == {"cc_vae": "annealed_vae"}
    assert canonical("cc_vae") == canonical("annealed_vae") == "annealed_vae"
    assert complete("cc_vae", {"c_max": 5}) == complete("annealed_vae", {"c_max": 5})
    assert context("cc_vae") == {"step"}


def test_which_letters_may_differ_within_a_stack():
    static = {m: {k for k, v in letters(m).items() if not v.per_run} for m in METHODS}
    critic = {"critic_beta1", "critic_beta2", "critic_width", "critic_depth"}
    players = {"categories", "num_noise", "critic_steps", "beta1", "beta2"}
    assert static == {
        "vae": set(), "beta_vae": set(), "annealed_vae": set(),
        "factor_vae": critic | {"convention"}, "factor_vae_prior": critic, "aae": critic,
        "beta_tcvae": {"sampling"}, "information_dropout": {"sampling"},
        "dip_vae_i": {"estimate"}, "dip_vae_ii": {"estimate"}, "joint_vae": {"categories"},
        "vade": {"clusters", "pretrain_steps", "pretrain_loss"},
        "infogan": players | {"game"}, "infowgan_gp": players,
    }
