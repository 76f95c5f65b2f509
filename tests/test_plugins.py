"""Methods, metrics and data sets of other packages: found, refused in a sentence, or left out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import unweave
from unweave.metrics import METRICS
from unweave.metrics.record import Metric
from unweave.objectives import METHODS, Method, canonical, letters
from unweave.plugins import Entries
from unweave.types import UserError

PACKAGE = '''
from unweave.objectives import Method
from unweave.objectives.elbo import elbo_terms

def half(out, *, weight: float = 0.5):
    terms = elbo_terms(out)
    return {"loss": terms["recon"] + weight * terms["kl"]} | terms

def untyped(out, *, weight=0.5):
    return elbo_terms(out)

def unset(out, *, weight: float):
    return elbo_terms(out)

HALF = Method(half, "nobody 2026", "the KL counts half", aliases=("halved",))
UNTYPED, UNSET = Method(untyped, "", ""), Method(unset, "", "")
WORD = Method("a word", "", "")
NUMBER = 3
'''


def install(folder: Path, module: str, source: str, points: dict[str, str],
            group: str = "unweave.methods") -> None:
    """A package with entry points, as an installer would have left it in a folder of sys.path."""
    (folder / f"{module}.py").write_text(source)
    about = folder / f"{module}-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n" + "".join(
        f"{name} = {value}\n" for name, value in points.items()))


@pytest.fixture
def methods(tmp_path, monkeypatch):
    """A dictionary of methods that has not been looked at yet; plugins go into tmp_path."""
    monkeypatch.syspath_prepend(tmp_path)
    return Entries("unweave.methods", Method, dict(METHODS), check=METHODS.check)


def test_a_plugin_comes_after_ours_and_says_where_it_is_from(tmp_path, methods):
    install(tmp_path, "plugin_found", PACKAGE, {"half": "plugin_found:HALF"})
    assert list(methods)[:2] == ["vae", "beta_vae"]
    assert list(methods)[-1] == "half"
    assert methods["half"].summary == "the KL counts half"
    assert methods.origins == {"half": "plugin_found 1.2"}
    assert "half" in repr(methods)


@pytest.mark.parametrize(("name", "value", "words"), [
    ("beta_vae", "plugin_bad:HALF", "unweave itself has that name"),
    ("half", "plugin_bad:MISSING", "cannot be loaded .AttributeError"),
    ("half", "plugin_bad_not_here:HALF", "cannot be loaded .ModuleNotFoundError"),
    ("half", "plugin_bad:NUMBER", "'half' must be a Method, got a int"),
    ("half", "plugin_bad:UNTYPED", "'weight' of untyped is a letter and needs a type and a def"),
    ("half", "plugin_bad:UNSET", "'weight' of unset is a letter and needs a type and a default"),
    ("half", "plugin_bad:WORD", "'half' cannot be used .Type"),
    ("../half", "plugin_bad:HALF", "'../half' must be letters, digits"),
])
def test_a_broken_plugin_is_left_out_with_a_warning(tmp_path, methods, name, value, words):
    install(tmp_path, "plugin_bad", PACKAGE, {name: value})
    with pytest.warns(UserWarning, match=rf"'{name}' of plugin_bad 1.2 .* is left out: .*{words}"):
        assert len(methods) == len(METHODS)
    assert methods["beta_vae"] is METHODS["beta_vae"]
    assert methods.origins == {}


def test_a_plugin_that_ends_the_program_is_left_out_like_any_other(tmp_path, methods):
    install(tmp_path, "plugin_exits", "raise SystemExit(3)", {"half": "plugin_exits:HALF"})
    with pytest.warns(UserWarning, match="cannot be loaded .SystemExit: 3"):
        assert len(methods) == len(METHODS)


def test_whichever_is_imported_first_it_trains(tmp_path):
    install(tmp_path, "plugin_first", PACKAGE, {"half": "plugin_first:HALF"})
    script = """
import json, plugin_first, unweave
import numpy as np
data = unweave.table_dataset(np.zeros((8, 64, 64), np.uint8), np.arange(8)[:, None], ["x"])
run, = unweave.train("halved", data, steps=1, batch_size=2, num_latents=2, out=None,
                     architecture="conv64-small", device="cpu", progress=False)
print(json.dumps([run.config.method, dict(run.config.hyper), run.info["versions"]]))
"""
    found = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script], check=True,
        capture_output=True, text=True,
        env={"PATH": "", "PYTHONPATH": f"{tmp_path}:{Path(unweave.__file__).parents[1]}"})
    method, hyper, versions = json.loads(found.stdout)
    assert (method, hyper) == ("half", {"weight": 0.5})
    assert versions["method"] == "plugin_first 1.2"
    assert "data" not in versions


def test_by_hand_in_one_process(monkeypatch):
    monkeypatch.setitem(METHODS, "mine", Method(METHODS["vae"].loss, "", "", aliases=("my_own",)))
    assert canonical("my_own") == "mine"
    assert letters("mine") == {}
    monkeypatch.setitem(METHODS, "mine", METHODS["beta_vae"])
    assert list(letters("mine")) == ["beta"]  # a cell of a notebook run again is what counts
    monkeypatch.undo()
    assert "mine" not in METHODS


def test_what_is_no_entry_is_refused():
    with pytest.raises(UserError, match="'mine' must be a Method, got a function"):
        METHODS["mine"] = lambda out: out
    with pytest.raises(UserError, match="'mine' calls itself 'mig'"):
        METRICS["mine"] = METRICS["mig"]
    assert isinstance(METRICS["mig"], Metric)
    assert "mine" not in METHODS
