"""Files that cannot be rendered: fetched on request into the user's data folder.

A download goes to `NAME.part`, is taken up where it broke off, checked, and renamed; a second
process that wants the same file waits for the first. Nothing is fetched unless asked for. Where no
checksum is published the file is checked for what it is (an image that opens), and its SHA-256 and
address are recorded beside it in `NAME.source.json`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from unweave.data.sources import SOURCES, Source
from unweave.types import UserError, unknown_name

Progress = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes had so far and, where the server says it, those in all."""

_BLOCK = 1 << 16
_TIMEOUT = 30.0
_AGENT = "unweave data fetch (python urllib)"


def written_path(said: str | Path) -> Path:
    """A path as the user writes it, with the home folder where it begins with `~`."""
    try:
        return Path(said).expanduser()
    except RuntimeError:  # of a user that the system does not know
        raise UserError(f"{said} begins with a home folder that this machine does not know: write "
                        "the whole path, or ./~ for a name that begins so") from None


def whole_path(said: str | Path) -> Path:
    """The same from the root, without links; one in a ring stays, and is found to be no file."""
    return Path(os.path.realpath(written_path(said)))


def data_folder() -> Path:
    """`UNWEAVE_DATA` where it is set, else `unweave` in the user's cache folder."""
    if chosen := os.environ.get("UNWEAVE_DATA"):
        return written_path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "unweave"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "unweave"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unweave"


def stored_path(name: str) -> Path:
    """Where the file of a source is, or would be."""
    return data_folder() / _source(name).file


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise unknown_name("download", name, SOURCES)
    return SOURCES[name]


def on_disk(name: str) -> int | None:
    """Bytes of a source's files if all of them are in the data folder, else None."""
    paths = [data_folder() / part.file for part in _source(name).files]
    return sum(p.stat().st_size for p in paths) if all(p.is_file() for p in paths) else None


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Download those of a source's files that are not there yet; the path of the first."""
    return fetch_all(name, progress=progress)[0]


def fetch_all(name: str, *, progress: Progress | None = None) -> list[Path]:
    """As `fetch`; the paths of all files."""
    parts = _source(name).files
    names = [part.file.rpartition("/")[2] for part in parts]
    # Who has to do it by hand wants to know at once what else belongs there.
    beside = f"; {name} has {len(parts)} files: {', '.join(names)}" if len(parts) > 1 else ""
    return [_fetch(name, part, data_folder() / part.file, progress, beside) for part in parts]


def _fetch(name: str, source: Source, path: Path, progress: Progress | None,
           beside: str) -> Path:
    if _is_there(source, path):
        return path
    if not source.urls:
        raise UserError(f"{name} cannot be fetched by a program: accept the terms at {source.page} "
                        f"({source.licence}), download {path.name} and put it at {path}{beside}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the data folder {path.parent} ({error}): "
                        "set UNWEAVE_DATA to a folder you may write") from error
    with _alone(path.with_name(path.name + ".lock")):
        if not _is_there(source, path):  # fetched by another meanwhile
            _fetch_anew(name, source, path, progress, beside)
    return path


def _is_there(source: Source, path: Path) -> bool:
    if path.is_file() and (problem := _wrong_sum(path, source)):
        raise UserError(f"{path} is there, but {problem}: remove it and fetch again")
    return path.is_file()


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Only one process writes a part: two would mix their bytes, after the check as well.

    The lock ends with the process, however that ends; its file is removed by who holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    while True:
        try:
            file = io.FileIO(lock, "w")
        except OSError as error:
            raise _Unwritable.of(lock, error) from error
        with file:
            with contextlib.suppress(OSError):  # a network's folder may have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_called(file.fileno(), lock):
                continue  # who held it has removed it: this lock keeps nobody away
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def _is_called(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _fetch_anew(name: str, source: Source, path: Path, progress: Progress | None,
                beside: str) -> None:
    failures = []
    for url in source.urls:
        # Each address has its own part: two scans must never be joined into one file.
        mark = hashlib.sha256(url.encode()).hexdigest()[:8]
        part = path.with_name(f"{path.name}.{mark}.part")
        try:
            _download(url, part, progress)
            _verify(part, source)
        except _Unwritable:
            raise
        except (OSError, HTTPException, UserError) as error:
            failures.append(f"{url}: {error}")
            continue
        record = {"url": url, "sha256": _digest(part, "sha256"), "bytes": part.stat().st_size,
                  "licence": source.licence,
                  "checksum_known": source.sha256 is not None or source.md5 is not None}
        note = path.with_name(path.name + ".source.json")
        draft = note.with_name(note.name + ".part")
        try:
            draft.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            os.replace(draft, note)
            os.replace(part, path)
        except OSError as error:
            raise _Unwritable.of(path, error) from error
        return
    raise UserError(f"could not fetch {name} ({'; '.join(failures)}): go online and try again, or "
                    f"put the file from one of these addresses at {path}{beside}")


class _Unwritable(UserError):
    """Trouble of this machine, not the server's: another address would not help."""

    @classmethod
    def of(cls, path: Path, error: OSError) -> _Unwritable:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return cls(f"no space is left for {path}: free some and fetch again, which goes on "
                       "where it was, or set UNWEAVE_DATA to a folder elsewhere")
        return cls(f"cannot write {path} ({error.strerror or error}): set UNWEAVE_DATA to a folder "
                   "you may write")


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
        where = response.headers.get("Content-Range", f"bytes {had}-")
        if response.status == 206 and not where.startswith(f"bytes {had}-"):
            raise OSError(f"the server sent {where} where bytes from {had} on were asked for")
        if response.status != 206:
            had = 0
        length = response.headers.get("Content-Length")
        total = had + int(length) if length is not None and length.isdecimal() else None
        had = _copy(response, part, had, total, progress)
    if total is not None and had != total:
        raise OSError(f"the connection broke after {had} of {total} bytes; "
                      "fetching again takes it up there")


def _copy(response: HTTPResponse, part: Path, had: int, total: int | None,
          progress: Progress | None) -> int:
    """Write what comes to the end of `part`; how many bytes it has then."""
    try:
        if total is not None and shutil.disk_usage(part.parent).free < total - had:
            raise OSError(errno.ENOSPC, "too little space")
        out = part.open("ab" if had else "wb", buffering=0)
    except OSError as error:
        raise _Unwritable.of(part, error) from error
    with out:
        while block := response.read(_BLOCK):
            try:
                if out.write(block) != len(block):  # on a full disk a part of it may fit
                    raise OSError(errno.ENOSPC, "too little space")
            except OSError as error:
                raise _Unwritable.of(part, error) from error
            had += len(block)
            if progress is not None:
                progress(part.name.rpartition(".")[0].rpartition(".")[0], had, total)
    return had


def _verify(part: Path, source: Source) -> None:
    """Refuse, and remove, a finished download that is not what was asked for."""
    problem = _wrong_sum(part, source)
    if not problem and source.check is not None:
        try:
            source.check(part)
        except UserError as error:
            problem = str(error)
    if problem:
        part.unlink()
        raise UserError(f"the file was refused and removed: {problem}")


def _wrong_sum(path: Path, source: Source) -> str:
    """What is wrong with a file's length or checksum; nothing if they are as expected."""
    if source.num_bytes is not None and path.stat().st_size != source.num_bytes:
        return f"it has {path.stat().st_size} bytes, expected {source.num_bytes}"
    for kind, said in (("sha256", source.sha256), ("md5", source.md5)):
        if said is not None and (found := _digest(path, kind)) != said:
            return f"its {kind.upper().replace('SHA', 'SHA-')} is {found}, expected {said}"
    return ""


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        if kind == "md5":  # an identity, not a defence: this is what was published
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        return hashlib.file_digest(file, kind).hexdigest()
