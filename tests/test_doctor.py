"""What works on this machine: said truthfully, and never a reason to fail."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from unweave.report import doctor
from unweave.report.doctor import OPTIONAL, Finding, extras, findings
from unweave.report.versions import versions

ROOT = Path(__file__).parents[1]


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "unweave", *arguments], check=False,
                          capture_output=True, text=True)


def test_the_command_lists_everything_and_exits_with_0():
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {record["name"]: record for record in json.loads(done.stdout)}
    assert {"python", "torch", "gpu", "triton", "bfloat16 on the CPU", "cores", "browser",
            "plugins", "data", "disk", *(entry[0] for entry in OPTIONAL)} == set(found)
    assert found["python"]["works"]
    assert found["torch"]["works"]
    for record in found.values():
        assert record["found"], record
        if not record["works"]:
            assert record["advice"], record


def test_help_has_an_example():
    done = run("doctor", "--help")
    assert done.returncode == 0
    assert "Example: unweave doctor" in done.stdout
    assert "--json" in done.stdout


def test_a_table_for_people(capsys, monkeypatch):
    from unweave import cli

    monkeypatch.setattr(doctor, "OPTIONAL", ())
    with pytest.raises(SystemExit) as leave:
        cli.main(["doctor"])
    assert leave.value.code == 0
    out = capsys.readouterr().out
    assert "torch" in out
    assert "yes" in out


def test_what_is_missing_or_broken_is_told(monkeypatch, tmp_path):
    (tmp_path / "broken_in_two.py").write_text("raise RuntimeError('in two\\nmore lines')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(doctor, "OPTIONAL", (
        ("absent", "no_such_package", "no-such-package", "nothing is lost"),
        ("broken", "broken_in_two", "broken-in-two", "nothing is lost")))
    found = {finding.name: finding for finding in findings()}
    assert found["absent"] == Finding("absent", False, "not installed: nothing is lost",
                                      "pip install no-such-package")
    assert found["broken"].found == "broken: RuntimeError: in two"
    assert found["disk"].found


def test_advice_names_the_smallest_extra_that_helps(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: [
        "numpy>=2", 'ray[default]>=2; extra == "ray"', 'ray>=2; extra == "everything"',
        'uvicorn; extra == "everything"', "s3fs; sys_platform == 'linux' and extra == 's3'"])
    assert extras() == {"ray": ["ray"], "everything": ["ray", "uvicorn"], "s3": ["s3fs"]}
    assert doctor._how_to_get("ray") == "pip install 'unweave[ray]'"
    assert doctor._how_to_get("uvicorn") == "pip install 'unweave[everything]'"
    assert doctor._how_to_get("h5py") == "pip install h5py"


def test_it_speaks_where_torch_is_missing(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('No module named torch')")
    source = Path(doctor.__file__).parents[2]
    done = subprocess.run([sys.executable, "-m", "unweave", "doctor", "--json"], check=False,
                          capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"})
    assert done.returncode == 0, done.stderr
    found = {record["name"]: record for record in json.loads(done.stdout)}
    assert found["torch"]["advice"] == "pip install torch"
    assert not found["gpu"]["works"]
    assert found["data"]["advice"] == "mend torch first"
    assert found["figures"]["name"] == "figures"


def test_a_full_disk_is_noticed(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda where: type("", (), {"free": 10**6}))
    finding = next(f for f in findings() if f.name == "disk")
    assert not finding.works
    assert "UNWEAVE_DATA" in finding.advice


def test_version_for_bug_reports(monkeypatch):
    done = run("--version", "--verbose")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("unweave ")
    assert any(line.startswith("torch: 2") for line in lines)
    monkeypatch.setenv("UNWEAVE_DATA", "/data")
    monkeypatch.setenv("UNWEAVE_PASSWORD", "hush")
    assert dict(versions())["settings"] == "UNWEAVE_DATA=/data, UNWEAVE_PASSWORD is set"


def test_the_report_covers_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = {name for name, _ in versions()}
    assert {line.split(">")[0] for line in project["dependencies"]} <= said
    assert {package for _, _, package, _ in OPTIONAL} <= said


def test_verbose_alone_is_refused():
    done = run("--verbose")
    assert done.returncode == 2
    assert "belongs to --version" in done.stderr
    assert len(done.stderr.splitlines()) == 1
