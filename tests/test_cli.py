"""The command line as a newcomer meets it: help, listings, errors in one sentence, exit codes."""

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unweave import cli
from unweave.report.tables import print_records


def run(capsys, *arguments):
    """Exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as leave:
        cli.main(list(arguments))
    shown = capsys.readouterr()
    return leave.value.code, shown.out, shown.err


COMMANDS = ["train", "score", "udr", "correlations", "methods", "architectures", "metrics",
            "datasets", "demo", "data list", "data show", "data fetch", "data check",
            "study import published", "study analyse", "compare", "select", "show", "report",
            "explore", "export", "pull", "import-checkpoint", "doctor", "study cost",
            "study merge", "study agreement"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(capsys, command):
    code, out, _ = run(capsys, *command.split(), "--help")
    assert code == 0
    assert f"Example: unweave {command}" in out
    assert "--json" in out


@pytest.mark.parametrize(("command", "names"), [
    ("methods", {"vae", "beta_vae"}),
    ("architectures", {"conv64", "conv64-study2019"}),
    ("metrics", {"mig", "factor_vae", "udr"}),
    ("datasets", {"dsprites", "color_dsprites", "noisy_dsprites", "scream_dsprites"}),
    ("data list", {"dsprites"}),
])
def test_listings(capsys, command, names):
    code, out, _ = run(capsys, *command.split(), "--json")
    assert code == 0
    assert names <= {record["name"] for record in json.loads(out)}
    code, out, _ = run(capsys, *command.split())
    assert code == 0
    assert all(name in out for name in names)


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert re.fullmatch(r"unweave \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize(("arguments", "words"), [
    ("train beta_vea", "did you mean 'beta_vae'"),
    ("train beta_vae --data dsprite", "did you mean 'dsprites'"),
    ("train beta_vae --data dsprites:/no/file.npz --steps 1", "/no/file.npz"),
    ("train beta_vae --set beta=-1", "must be at least 0"),
    ("train beta_vae --set beta", "write --set beta=4"),
    ("train beta_vae --set beto=4", "did you mean 'beta'"),
    ("train beta_vae --batch-size 737281 --steps 1", "is larger than dsprites"),
    ("train beta_vae --steps many", "--steps"),
    ("train beta_vae --seeds a..b", "write 0..3"),
    ("train beta_vae --architecture conv46", "did you mean 'conv64'"),
    ("train beta_vae --device tpu9", "unknown device"),
    ("train", "Missing argument"),
    ("score /no/such/folder", "neither a run folder"),
    ("udr /no/such/folder", "neither a run folder"),
    ("correlations /no/such/folder", "is not a folder"),
    ("compare runs/ID --store /no/store", "there is no store at"),
    ("select /no/store", "there is no store at"),
    ("study analyse /no/store", "there is no store at"),
    ("study import published --file /no/file.csv --store s", "/no/file.csv does not exist"),
    ("data show nothing", "unknown data set"),
    ("data fetch nothing", "nothing"),
    ("data check dsprites --file /no/file.npz", "/no/file.npz"),
    ("data check mnist --file x", "cannot be checked"),
    ("trian", "train"),
    ("methods --colour", "--colour"),
])
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments.split())
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    assert list(tmp_path.iterdir()) == []


def test_scores_of_arrays(capsys, tmp_path):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, size=(3000, 2))
    np.savez(tmp_path / "codes.npz", codes=factors + rng.normal(0, 0.01, (3000, 2)),
             factors=factors)
    code, out, _ = run(capsys, "score", str(tmp_path / "codes.npz"), "--metric", "mig", "--json")
    (record,) = json.loads(out)
    assert code == 0
    assert record["name"] == "mig"
    assert record["low"] <= record["value"] <= record["high"]
    assert record["value"] > 0.9 > 0.1 > record["chance"]
    code, out, _ = run(capsys, "score", str(tmp_path / "codes.npz"))
    assert code == 0
    assert "factor_vae" in out


def test_bad_arrays(capsys, tmp_path):
    np.savez(tmp_path / "half.npz", codes=np.zeros((3, 2)))
    (tmp_path / "broken.npz").write_bytes(b"not a zip")
    np.savez(tmp_path / "objects.npz", codes=np.array([{}], dtype=object), factors=np.zeros(1))
    for name, words in (("half", "has no array 'factors'"), ("broken", "not a readable npz"),
                        ("objects", "Python objects, which is never opened")):
        code, _, err = run(capsys, "score", str(tmp_path / f"{name}.npz"))
        assert code == 2
        assert words in err


RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 4, size=(300, 2))
GOOD = {"codes": CLASSES + 0.1 * RNG.normal(size=(300, 2)), "factors": CLASSES}
REFUSED = {
    "three axes": ({"codes": np.zeros((30, 4, 2))}, "codes must be [sample, latent]"),
    "other rows": ({"codes": GOOD["codes"][:-1]}, "same number of rows, got 299 and 300"),
    "no rows": ({"codes": np.zeros((0, 2)), "factors": np.zeros((0, 2))}, "at least 2 rows"),
    "no columns": ({"factors": np.zeros((300, 0))}, "at least one factor"),
    "constant factors": ({"factors": np.ones((300, 2), int)}, "every factor is constant"),
    "strings for codes": ({"codes": CLASSES.astype(str)}, "codes must be real numbers"),
    "a number": ({"codes": np.float64(3)}, "codes must be [sample, latent]"),
    "nan in codes": ({"codes": np.where(CLASSES > 0, np.nan, 0.0)}, "codes must be finite"),
    "objects": ({"factors": CLASSES.astype(object)}, "never opened"),
    "records": ({"factors": np.zeros(300, dtype=[("a", int)])}, "give numbers or strings"),
    "types": ({"factor_types": np.array(["ordinal", "cyclic"])}, "unknown factor type 'cyclic'"),
    "types and names": ({"factors": CLASSES.astype(str), "factor_types": np.array("continuous")},
                        "does not hold real numbers"),
}


@pytest.mark.filterwarnings("ignore:factor . is constant")
@pytest.mark.parametrize("case", sorted(REFUSED))
def test_arrays_that_cannot_be_scored_are_one_sentence(capsys, tmp_path, case):
    other, words = REFUSED[case]
    np.savez(tmp_path / "bad.npz", **{**GOOD, **other})
    code, out, err = run(capsys, "score", str(tmp_path / "bad.npz"), "--metric", "mig")
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err


def test_warnings_are_sentences_too(tmp_path):
    gaps = np.where(CLASSES == 3, np.nan, CLASSES)
    np.savez(tmp_path / "gaps.npz", codes=GOOD["codes"], factors=gaps)
    command = [sys.executable, "-m", "unweave", "score", str(tmp_path / "gaps.npz")]
    made = subprocess.run([*command, "--metric", "mig"], check=False, capture_output=True,
                          text=True)
    assert made.returncode == 0
    assert re.fullmatch(r"(unweave: factor \d is unknown in \d+ of 300 rows, which are left out "
                        r"where it is scored\n){2}", made.stderr)


def test_names_gaps_and_types_in_arrays(capsys, tmp_path):
    names = np.array(["ape", "bee", "cat", ""])[CLASSES]
    np.savez(tmp_path / "names.npz", codes=GOOD["codes"], factors=names)
    with pytest.warns(UserWarning, match="unknown in"):
        code, out, _ = run(capsys, "score", str(tmp_path / "names.npz"), "--metric", "mig",
                           "--json")
    assert code == 0
    assert json.loads(out)[0]["value"] > 0.8
    np.savez(tmp_path / "angles.npz", codes=GOOD["codes"], factors=GOOD["codes"] * 90,
             factor_types=np.array(["circular:360", "continuous"]))
    for options in ([], ["--factor-types", "continuous,circular:360"],
                    ["--factor-types", "continuous"]):
        code, out, _ = run(capsys, "score", str(tmp_path / "angles.npz"), "--metric", "sap",
                           "--json", *options)
        assert code == 0
        assert json.loads(out)[0]["value"] > 0.5


def test_train_score_and_again(capsys, tmp_path):
    arguments = ["train", "beta_vae", "--set", "beta=1,4", "--steps", "2", "--batch-size", "4",
                 "--out", str(tmp_path / "runs"), "--precision", "float32", "--json"]
    code, out, err = run(capsys, *arguments)
    records = json.loads(out)
    assert code == 0
    assert [r["beta"] for r in records] == [1.0, 4.0]
    assert "model-steps/s" in err  # plain lines in a log
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "exists already (finished): add --resume" in err
    code, out, _ = run(capsys, *arguments, "--resume")
    assert code == 0
    assert [r["name"] for r in json.loads(out)] == [r["name"] for r in records]
    code, out, _ = run(capsys, "score", str(tmp_path / "runs"), "--votes", "20", "--metric",
                       "factor_vae", "--json")
    assert code == 0
    assert {r["run_id"] for r in json.loads(out)} == {r["name"] for r in records}
    assert all((tmp_path / "runs" / r["name"] / "scores.parquet").exists() for r in records)


    code, out, _ = run(capsys, "udr", str(tmp_path / "runs"), "--num-points", "50", "--json")
    assert code == 0
    names = sorted(r["name"] for r in records)
    assert [(r["run_id"], r["name"]) for r in json.loads(out)] == [
        (name, key) for name in names for key in ("udr", "udr.spearman")]
    code, _, err = run(capsys, "udr", str(tmp_path / "runs" / records[0]["name"]))
    assert code == 2
    assert "at least 2 are needed, got 1" in err
    code, out, _ = run(capsys, "correlations", str(tmp_path / "runs" / records[0]["name"]),
                       "--num-points", "50", "--json")
    assert code == 0
    assert {"z0", "z9", "position_x"} <= {r["name"] for r in json.loads(out)}


def test_the_table_of_runs_tells_the_letters_that_were_chosen(capsys, tmp_path, monkeypatch):
    """Of dip_vae_i's letters the strength, and what is not as by default; small numbers in full."""
    monkeypatch.chdir(tmp_path)  # short names of folders leave room
    arguments = ["train", "dip_vae_i", "--steps", "1", "--batch-size", "4", "--architecture",
                 "conv64-small", "--precision", "float32", "--set", "lambda_od=1,0.00002"]
    code, out, _ = run(capsys, *arguments, "--set", "lambda_d=10", "--out", "a")
    assert code == 0
    rows = [line for line in out.splitlines() if "done" in line]
    assert [re.search(r"lambda_d=\S+ lambda_od=\S+", row).group() for row in rows] == [
        "lambda_d=10, lambda_od=1", "lambda_d=10, lambda_od=2e-05"]
    assert "estimate" not in out
    code, out, _ = run(capsys, *arguments[:2], *arguments[2:-2], "--out", "b", "--json")
    assert code == 0
    assert {"lambda_od", "lambda_d", "estimate", "name"} <= set(json.loads(out)[0])


def test_udr_of_arrays(capsys, tmp_path):
    rows = np.random.default_rng(0).normal(size=(200, 3))
    noise = np.random.default_rng(1).normal(size=(200, 3))
    np.savez(tmp_path / "runs.npz", codes=[rows, rows[:, ::-1], -rows, noise],
             kl=np.ones((4, 3)))
    code, out, _ = run(capsys, "udr", str(tmp_path / "runs.npz"), "--json")
    found = {(r["run"], r["name"]): r for r in json.loads(out)}
    assert code == 0
    assert len(found) == 8
    assert found[0, "udr"]["value"] > 0.85 > 0.2 > found[3, "udr"]["value"]
    assert found[0, "udr"]["low"] <= found[0, "udr"]["value"] <= found[0, "udr"]["high"]
    np.savez(tmp_path / "one.npz", codes=rows)
    code, _, err = run(capsys, "udr", str(tmp_path / "one.npz"))
    assert code == 2
    assert "must be [run, sample, latent], got the shape (200, 3)" in err
    np.savez(tmp_path / "none.npz", factors=rows)
    code, _, err = run(capsys, "udr", str(tmp_path / "none.npz"))
    assert code == 2
    assert "has no array 'codes' (it holds factors)" in err


def test_correlations_of_arrays(capsys, tmp_path):
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, size=(300, 2))
    np.savez(tmp_path / "codes.npz", codes=factors @ [[1, 0, 0], [0, 1, -1]], factors=factors)
    given = ["correlations", str(tmp_path / "codes.npz")]
    code, out, _ = run(capsys, *given, "--json", "--save", str(tmp_path / "made" / "table.npz"))
    assert code == 0
    records = {record["name"]: record for record in json.loads(out)}
    assert list(records) == ["z0", "z1", "z2", "factor 0", "factor 1"]
    assert records["factor 1"]["latent"] == "z1"
    with np.load(tmp_path / "made" / "table.npz") as made:
        assert made["latents"][1, 2] == pytest.approx(-1.0)
        assert made["factors"].shape == (3, 2)
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert "-1.000" in out
    code, _, err = run(capsys, *given, "--save", "table.csv")
    assert code == 2
    assert "must end in .npz" in err


@pytest.mark.parametrize(("setting", "advice"), [
    ("precision=float32", "--precision float32"), ("learning_rate=1e-3", "--learning-rate 1e-3"),
    ("data=mnist", "--data mnist"), ("log=wandb", "--log wandb"), ("method=vae", "write vae")])
def test_an_option_given_as_a_letter_is_named(capsys, tmp_path, setting, advice):
    code, _, err = run(capsys, "train", "beta_vae", "--set", setting, "--out", str(tmp_path / "o"))
    assert code == 2
    assert err.startswith("unweave: ")
    assert err.rstrip().endswith(advice)
    assert err.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_pictures_of_a_data_set(capsys, tmp_path):
    code, _, _ = run(capsys, "data", "show", "dsprites", "--out", str(tmp_path / "sheets"))
    assert code == 0
    written = sorted(p.name for p in (tmp_path / "sheets").iterdir())
    assert written == ["dsprites-images.png", "dsprites-walks.png"]
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "data", "show", "dsprites", "--out", str(tmp_path / "file" / "x"))
    assert code == 2
    assert "choose a place you may write" in err


def test_help_does_not_wait_for_torch():
    script = ("import sys, unweave, unweave.cli\n"
              "assert 'torch' not in sys.modules and 'sklearn' not in sys.modules\n")
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_ctrl_c_says_how_to_go_on(capsys, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("unweave.training.train", interrupt)
    code, _, err = run(capsys, "train", "beta_vae")
    assert code == 130
    assert "the same command with --resume goes on" in err


def test_ctrl_c_in_a_study_names_no_option_that_it_does_not_have(capsys, monkeypatch, tmp_path):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("unweave.studies.runner.run_study", interrupt)
    code, _, err = run(capsys, "study", "run", "quick", "--store", str(tmp_path))
    assert code == 130
    assert "the same command goes on" in err
    assert "--resume" not in err
    monkeypatch.setattr("unweave.report.demo.run_demo", interrupt)
    code, _, err = run(capsys, "demo", "--out", str(tmp_path / "demo"))
    assert (code, err.strip()) == (130, "unweave: interrupted")  # it keeps nothing


def test_a_full_disk_is_one_sentence(capsys, monkeypatch):
    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device", "runs/x")

    monkeypatch.setattr("unweave.training.train", full)
    code, _, err = run(capsys, "train", "beta_vae")
    assert code == 2
    assert "no space is left on the disk (runs/x)" in err


def test_ctrl_c_ends_with_a_sentence_even_when_pressed_twice(tmp_path):
    words = [sys.executable, "-m", "unweave", "train", "vae", "--data", "dsprites", "--out",
             str(tmp_path), "--architecture", "conv64-small", "--device", "cpu"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as process:
        assert "vae x 1: 0/300000" in process.stderr.readline()  # it trains
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert said.strip().splitlines()[-1].startswith("unweave: interrupted: what was checkpointed")
    assert "Traceback" not in said


def test_letters_that_the_terminal_lacks_are_spelt_out(monkeypatch):
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, encoding="ascii"))
    monkeypatch.setattr(cli, "print_version", lambda verbose: print("own runs ü"))
    with pytest.raises(SystemExit) as leave:
        cli.main(["--version"])
    sys.stdout.flush()
    assert leave.value.code == 0
    assert held.getvalue() == b"own runs \\xfc\n"


def test_json_has_null_for_what_is_no_number(capsys):
    """NaN and Infinity are Python's alone: other readers stop at them."""
    records = [{"a": float("nan"), "b": [1.5, float("inf")], "c": {"d": np.float64("-inf")},
                "e": np.float32("nan"), "f": np.int64(3), "g": Path("x")}]
    print_records(records, (), as_json=True)
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == [
        {"a": None, "b": [1.5, None], "c": {"d": None}, "e": None, "f": 3, "g": "x"}]
