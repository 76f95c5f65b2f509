"""Starting is quick: what is imported before a command runs, and what shells are told."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "scipy", "sklearn", "numba", "pyarrow", "duckdb", "PIL", "matplotlib",
         "rich", "asyncio", "scipy.stats", "scipy.spatial", "scipy.optimize")


def modules_after(script):
    """Which of the heavy modules are loaded at the end of a script, and how many in all."""
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport json, sys\n"
         f"print(json.dumps([[m for m in {HEAVY} if m in sys.modules], len(sys.modules)]))"],
        check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_import_unweave_loads_nothing_heavy():
    heavy, count = modules_after("import unweave")
    assert heavy == []
    # 64 on Python 3.11, most of them the interpreter itself; with torch 1,123.
    assert count < 200


@pytest.mark.parametrize("arguments", ["--help", "--version", "--version --verbose",
                                       "train --help", "study --help"])
def test_help_loads_nothing_heavy(arguments):
    script = ("import unweave.cli\ntry:\n"
              f"    unweave.cli.main({arguments.split()!r})\nexcept SystemExit: pass")
    heavy, count = modules_after(script)
    assert heavy == []
    assert count < 500


def test_processes_that_score_load_what_their_metrics_need():
    """A study starts one for each core. scipy.stats alone took as long as half of torch."""
    heavy, _ = modules_after("import unweave.studies.runner")
    assert set(heavy) <= {"torch", "numpy", "scipy", "pyarrow", "PIL", "asyncio"}


def complete(shell, words):
    """What a shell is offered after some words, by the protocol of its completion script."""
    asked = {"bash": {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))},
             "zsh": {"_TYPER_COMPLETE_ARGS": words},
             "fish": {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['unweave']; import unweave.cli; "
         "unweave.cli.main()"], check=False, capture_output=True, text=True,
        env={**os.environ, "_UNWEAVE_COMPLETE": f"complete_{shell}", **asked[shell]})
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions(shell):
    commands = complete(shell, "unweave st")
    assert "study" in commands
    assert "methods" not in commands
    assert "status" in complete(shell, "unweave study sta")
    assert "--num-latents" in complete(shell, "unweave train --num")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_can_be_had(shell):
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['unweave', '--show-completion', "
         f"'{shell}']; import unweave.cli; unweave.cli.main()"], check=False, capture_output=True,
        text=True, env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert done.returncode == 0
    assert "_UNWEAVE_COMPLETE" in done.stdout
    assert "unweave" in done.stdout
