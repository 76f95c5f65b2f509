"""Files that cannot be rendered: fetched on request into the user's data folder.

A download goes to `NAME.part`, is taken up where it broke off, checked, and renamed. Nothing is
fetched unless asked for. Where no checksum is published the file is checked for what it is (an
image that opens), and its SHA-256 and address are recorded beside it in `NAME.source.json`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from unweave.data.painting import read_painting
from unweave.types import UserError, unknown_name

Progress = Callable[[int, int | None], None]
"""Called with the bytes had so far and, where the server says it, the bytes in all."""

_BLOCK = 1 << 16
_TIMEOUT = 30.0
_AGENT = "unweave data fetch (python urllib)"


@dataclass(frozen=True)
class Source:
    """Where a file comes from. The addresses are tried in order."""

    urls: tuple[str, ...]
    file: str
    licence: str
    summary: str
    sha256: str | None = None
    """None where no checksum is known; then `check` reads the file and raises if it is no good."""
    num_bytes: int | None = None
    check: Callable[[Path], object] | None = None


SOURCES: dict[str, Source] = {
    "scream": Source(
        urls=(
            # The address in disentanglement_lib's download script, then another scan.
            "https://upload.wikimedia.org/wikipedia/commons/f/f4/The_Scream.jpg",
            "https://upload.wikimedia.org/wikipedia/commons/c/c5/Edvard_Munch%2C_1893%2C_The_"
            "Scream%2C_oil%2C_tempera_and_pastel_on_cardboard%2C_91_x_73_cm%2C_National_Gallery_"
            "of_Norway.jpg",
        ),
        file="scream.jpg", licence="public domain", check=read_painting,
        summary="Edvard Munch, The Scream, 1893: the background of scream_dsprites"),
}


def data_folder() -> Path:
    """`UNWEAVE_DATA` where it is set, else `unweave` in the user's cache folder."""
    if chosen := os.environ.get("UNWEAVE_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "unweave"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "unweave"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unweave"


def stored_path(name: str) -> Path:
    """Where the file of a source is, or would be."""
    if name not in SOURCES:
        raise unknown_name("download", name, SOURCES)
    return data_folder() / SOURCES[name].file


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Download a source's file unless it is there already; return its path."""
    path = stored_path(name)
    source = SOURCES[name]
    if path.is_file():
        if source.sha256 is None or _sha256(path) == source.sha256:
            return path
        raise UserError(f"{path} is there with another SHA-256 than the expected "
                        f"{source.sha256}: remove it and fetch again")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the data folder {path.parent} ({error}): "
                        "set UNWEAVE_DATA to a folder you may write") from error
    failures = []
    for url in source.urls:
        # Each address has its own part: two scans must never be joined into one file.
        mark = hashlib.sha256(url.encode()).hexdigest()[:8]
        part = path.with_name(f"{path.name}.{mark}.part")
        try:
            _download(url, part, progress)
            _verify(part, source)
        except (OSError, HTTPException, UserError) as error:
            failures.append(f"{url}: {error}")
            continue
        record = {"url": url, "sha256": _sha256(part), "bytes": part.stat().st_size,
                  "licence": source.licence, "checksum_known": source.sha256 is not None}
        note = path.with_name(path.name + ".source.json")
        draft = note.with_name(note.name + ".part")
        draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        os.replace(draft, note)
        os.replace(part, path)
        return path
    raise UserError(f"could not fetch {name} ({'; '.join(failures)}): go online and try again, or "
                    f"put the file from one of these addresses at {path}")


def _download(url: str, part: Path, progress: Progress | None) -> None:
    """Bring `part` to the full length of the file at `url`, from wherever it stands."""
    had = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": _AGENT} | ({"Range": f"bytes={had}-"} if had else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers),
                                          timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 416 or not had:
                raise OSError(f"the server answered {error.code} {error.reason}") from error
        # Nothing after the end of the part: it was whole already, or it is not this file's.
        return
    with response:
        if response.status != 206:
            had = 0
        length = response.headers.get("Content-Length")
        total = had + int(length) if length is not None else None
        with part.open("ab" if had else "wb") as out:
            while block := response.read(_BLOCK):
                out.write(block)
                had += len(block)
                if progress is not None:
                    progress(had, total)
    if total is not None and had != total:
        raise OSError(f"the connection broke after {had} of {total} bytes; "
                      "fetching again takes it up there")


def _verify(part: Path, source: Source) -> None:
    """Refuse, and remove, a finished download that is not what was asked for."""
    problem = ""
    if source.sha256 is not None and (found := _sha256(part)) != source.sha256:
        problem = f"its SHA-256 is {found}, expected {source.sha256}"
    elif source.num_bytes is not None and part.stat().st_size != source.num_bytes:
        problem = f"it has {part.stat().st_size} bytes, expected {source.num_bytes}"
    elif source.check is not None:
        try:
            source.check(part)
        except UserError as error:
            problem = str(error)
    if problem:
        part.unlink()
        raise UserError(f"the file was refused and removed: {problem}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
