"""The Hugging Face Hub: an exported run goes up with its run folder, and comes back as a run.

What is pushed is the export (card, files for other programs) and, below `run/`, the run folder
itself, so that whoever pulls it can score it, traverse it or export it again. The token is
huggingface_hub's own business (`hf auth login`, or HF_TOKEN); HF_ENDPOINT names another server.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unweave.data import DATASETS, parse_spec
from unweave.training import Run
from unweave.types import UserError

RUN_FILES = ("config.json", "weights.safetensors", "curves.parquet", "run.json", "scores.parquet")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def push(run: Run, folder: str | Path, name: str, *, private: bool = False) -> str:
    """Put an export of a run, and the run, into the repository `name`; its address."""
    hub, _ = _library()
    _checked(name)
    if run.folder is None:
        raise UserError(f"{run.run_id} lives in memory: train it with out=..., so that it can be "
                        "pushed with its folder")
    _, file, _ = parse_spec(run.config.data)
    if file is not None and not _is_remote(run.config.data):
        warnings.warn(f"the pushed config names your path {file}: whoever pulls the run needs the "
                      "same file there", stacklevel=2)
    with _errors(name), tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "whole"
        shutil.copytree(folder, whole)
        (whole / "run").mkdir(exist_ok=True)
        for part in RUN_FILES:
            if (run.folder / part).exists():
                shutil.copyfile(run.folder / part, whole / "run" / part)
        api = hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
        api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=whole,
                          commit_message=f"{run.run_id}, exported by unweave")
    return f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co').rstrip('/')}/{name}"


def pull(name: str, out: str | Path, *, revision: str | None = None) -> Path:
    """Download the repository `name` into the folder `out/NAME`; if it holds a run, that is
    `out/NAME/run`.

    The folder appears when all of it is there.
    """
    hub, _ = _library()
    _checked(name)
    out = Path(out)
    target = out / name.split("/")[1]
    if target.exists():
        raise UserError(f"{target} exists already: remove it, or give another folder")
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=out))
    try:
        with _errors(name):
            hub.snapshot_download(name, revision=revision, local_dir=scratch,
                                  endpoint=os.environ.get("HF_ENDPOINT"))
        shutil.rmtree(scratch / ".cache", ignore_errors=True)
        scratch.chmod(0o755)
        scratch.replace(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return target


def _checked(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f"{name!r} is not a name on the Hub: write user/name")


def _is_remote(spec: str) -> bool:
    kind, file, _ = parse_spec(spec)
    return kind in DATASETS and DATASETS[kind].by_name and not Path(str(file)).exists()


def _library() -> tuple[Any, Any]:
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError:
        raise UserError("the Hub needs huggingface_hub, which is not installed: "
                        "pip install 'unweave[hf]'") from None
    return huggingface_hub, errors


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """What the library and the network raise, as one sentence."""
    _, errors = _library()
    try:
        yield
    except UserError:
        raise
    except errors.RepositoryNotFoundError:
        raise UserError(f"{name} is not on the Hub, or is private and you are not logged in: check "
                        "the name, or run `hf auth login`") from None
    except errors.RevisionNotFoundError:
        raise UserError(f"{name} has no such revision: leave --revision out for the newest"
                        ) from None
    except errors.LocalTokenNotFoundError:
        raise UserError("you are not logged in to the Hub: run `hf auth login`, or set HF_TOKEN"
                        ) from None
    except (errors.HfHubHTTPError, OSError) as error:
        raise UserError(f"the Hub did not take or give {name} ({_line(error)}): check your "
                        "connection and that your token may write") from None
    except ValueError as error:
        # A name that only the Hub's rules refuse, a file whose name would lead out of the folder,
        # a token with letters that no token has, a page of another server instead of an answer.
        raise UserError(f"{name} was neither taken nor given ({_line(error)}): check the name, "
                        "what is in the repository, your token, and HF_ENDPOINT") from None
    except Exception as error:
        # Its transport (httpx) has errors of its own kind for a server that cannot be reached.
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore"):
            raise
        raise UserError(f"the Hub cannot be reached ({error}): check your connection, or "
                        "HF_ENDPOINT") from None


def _line(error: Exception) -> str:
    """The first line of what an error says."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
