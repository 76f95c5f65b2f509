"""Files of a folder, a zip or a tar, read where they are: archives are never unpacked.

So no name in an archive is ever a path on this machine: `..`, absolute names and links lead
nowhere. Only regular files whose names are asked for are looked at; each is bounded by the bytes
that such a file may have, whatever the archive says that it inflates to.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from unweave.types import UserError

MAX_FILES = 1_000_000

BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, EOFError, OSError,
          RuntimeError, NotImplementedError)
"""What the standard library raises at damaged or foreign archives; RuntimeError: encrypted."""


class Files:
    """Those files of a folder, zip or plain tar whose names match; `read` from any thread.

    `names` are sorted: the order in a folder or an archive means nothing. `state` tells one state
    of the files from another, by lengths and times of change.
    """

    def __init__(self, path: Path, wanted: re.Pattern[str], max_bytes: int) -> None:
        self.path, self._max = path, max_bytes
        self._archive: zipfile.ZipFile | None = None
        self._places: dict[str, tuple[int, int]] = {}
        self._tar = -1
        if path.is_dir():
            found = {name: (size, changed) for name, size, changed in _walk(path, wanted)}
            sizes = {name: size for name, (size, _) in found.items()}
            self.state: list[object] = [str(path.resolve()), sorted(found.items())]
        else:
            try:
                sizes = self._open(path, wanted)
                status = path.stat()
            except BROKEN as error:
                raise _damaged(path, error) from error
            self.state = [str(path.resolve()), status.st_size, status.st_mtime_ns]
        for name, size in sizes.items():
            _check_size(path, name, size, max_bytes)
        self.names = sorted(sizes)
        self._lock = threading.Lock()

    def _open(self, path: Path, wanted: re.Pattern[str]) -> dict[str, int]:
        if zipfile.is_zipfile(path):
            self._archive = zipfile.ZipFile(path)
            found = self._archive.infolist()
            _check_number(path, len(found))
            return {info.filename: info.file_size for info in found
                    if not info.is_dir() and wanted.search(info.filename)}
        with tarfile.open(path, "r:") as archive:
            for number, member in enumerate(archive):
                _check_number(path, number)
                if member.isreg() and not member.sparse and wanted.search(member.name):
                    self._places[member.name] = member.offset_data, member.size
        self._tar = os.open(path, os.O_RDONLY)
        return {name: size for name, (_, size) in self._places.items()}

    def __del__(self) -> None:
        if getattr(self, "_tar", -1) >= 0:
            os.close(self._tar)
        if getattr(self, "_archive", None) is not None:
            self._archive.close()

    def read(self, name: str) -> bytes:
        """The content of a file. Raises one of `BROKEN` if it is damaged."""
        if self._archive is not None:
            with self._archive.open(name) as file:
                return _bounded(file.read(self._max + 1), self._max)
        if self._tar >= 0:
            offset, size = self._places[name]
            with self._lock:  # a place and a read: no pread on every system
                os.lseek(self._tar, offset, os.SEEK_SET)
                content = os.read(self._tar, size)
            if len(content) != size:
                raise EOFError("the archive ends within it")
            return content
        with (self.path / name).open("rb") as file:
            return _bounded(file.read(self._max + 1), self._max)


def contents(path: Path, wanted: re.Pattern[str], max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents of matching files: those of a tar, packed or not, as they come."""
    if path.is_dir() or zipfile.is_zipfile(path):
        files = Files(path, wanted, max_bytes)
        for name in files.names:
            try:
                content = files.read(name)
            except BROKEN as error:
                raise _damaged(path, error) from error
            yield name, content
        return
    try:
        with tarfile.open(path, "r|*") as archive:
            for number, member in enumerate(archive):
                _check_number(path, number)
                if not member.isreg() or member.sparse or not wanted.search(member.name):
                    continue
                _check_size(path, member.name, member.size, max_bytes)
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()
    except UserError:
        raise
    except BROKEN as error:
        raise _damaged(path, error) from error


def _walk(folder: Path, wanted: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    pending = [("", folder)]
    while pending:
        prefix, place = pending.pop()
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            raise UserError(f"cannot list {place} ({error.strerror}): allow reading it") from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append((f"{prefix}{entry.name}/", Path(entry.path)))
            elif wanted.search(prefix + entry.name) and entry.is_file():
                status = entry.stat()
                yield prefix + entry.name, status.st_size, status.st_mtime_ns


def _bounded(content: bytes, most: int) -> bytes:
    if len(content) > most:
        raise EOFError(f"it has more than {most} bytes")
    return content


def _check_number(path: Path, number: int) -> None:
    if number > MAX_FILES:
        raise UserError(f"{path} holds more than {MAX_FILES:,} files: it is not the published one")


def _check_size(path: Path, name: str, size: int, most: int) -> None:
    if not 0 <= size <= most:
        raise UserError(f"{name[:200]!r} in {path} has {size:,} bytes, more than the {most:,} that "
                        "such a file may have: it is not the published one")


def _damaged(path: Path, error: BaseException) -> UserError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return UserError(f"{path} cannot be read ({reason}): it may be damaged or cut short, or be no "
                     "zip or tar at all; fetch it again")
