"""Reference values and the problems behind them, for the tests that have them at hand."""

import gzip
import importlib.util
import json

import pytest


@pytest.fixture(scope="session")
def golden(shared):
    with gzip.open(shared / "golden" / "golden_public.json.gz") as file:
        return json.load(file)


@pytest.fixture(scope="session")
def load(shared):
    spec = importlib.util.spec_from_file_location("worlds", shared / "golden" / "worlds.py")
    worlds = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worlds)
    return lambda name: worlds.load(f"pub_{name}")
