"""Arrays in files with a short binary header: the matrices of NORB, and idx, the format of MNIST.

A header is a kind of number, a number of axes and their lengths; the entries follow, the last axis
fastest. NORB's is little-endian and always has three lengths at least, idx is big-endian. Either
may be packed with gzip. A header is a claim: nothing is allocated because of it alone. A plain
file must have exactly the length that follows from it, a packed one is read in pieces and must end
where the header says.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unweave.types import UserError

NORB_KINDS = {0x1E3D4C51: "<f4", 0x1E3D4C53: "<f8", 0x1E3D4C54: "<i4", 0x1E3D4C55: "|u1",
              0x1E3D4C56: "<i2"}
"""Bytes are unsigned: read as signed, every bright pixel would be dark."""

IDX_KINDS = {0x08: "|u1", 0x09: "|i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

MAX_AXES = 4
MAX_BYTES = 1 << 30
"""More than any of the published files holds."""

_PIECE = 1 << 22
_BROKEN = (OSError, EOFError, zlib.error, struct.error)


@dataclass(frozen=True)
class Header:
    """What a file says that it holds."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Length of the entries."""
        return math.prod(self.shape) * self.dtype.itemsize


def norb_header(stream: io.BufferedIOBase) -> Header:
    """Of a NORB matrix: magic number, number of axes, then three lengths or more."""
    magic, num_axes = struct.unpack("<Ii", _exactly(stream, 8))
    if magic not in NORB_KINDS:
        raise ValueError(f"it begins with {magic:#010x}, which is no matrix of NORB")
    if not 1 <= num_axes <= MAX_AXES:
        raise ValueError(f"its header says {num_axes} axes")
    lengths = struct.unpack(f"<{max(3, num_axes)}i", _exactly(stream, 4 * max(3, num_axes)))
    return _checked(NORB_KINDS[magic], lengths[:num_axes])


def idx_header(stream: io.BufferedIOBase) -> Header:
    """Of an idx file: two zeros, a kind, a number of axes, then as many lengths."""
    zero, kind, num_axes = struct.unpack(">HBB", _exactly(stream, 4))
    if zero or kind not in IDX_KINDS:
        raise ValueError(f"it begins with {zero:#06x}, {kind:#04x}, which is no idx file")
    if not 1 <= num_axes <= MAX_AXES:
        raise ValueError(f"its header says {num_axes} axes")
    lengths = struct.unpack(f">{num_axes}I", _exactly(stream, 4 * num_axes))
    return _checked(IDX_KINDS[kind], lengths)


def _checked(dtype: str, lengths: tuple[int, ...]) -> Header:
    header = Header(np.dtype(dtype), lengths)
    if min(lengths) < 1 or header.num_bytes > MAX_BYTES:
        raise ValueError(f"its header says the lengths {lengths}")
    return header


@contextlib.contextmanager
def opened(path: Path, read_header: Callable[[io.BufferedIOBase], Header],
           num_rows: int = 256) -> Iterator[tuple[Header, Iterator[np.ndarray]]]:
    """The header of a file, and its entries in blocks of `num_rows` along the first axis.

    UserError if the file is missing, packed badly, shorter or longer than its header says.
    """
    if not path.is_file():
        raise UserError(f"no file {path}")
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            stream = gzip.GzipFile(fileobj=plain) if packed else plain
            header = read_header(stream)
            begins = stream.tell()
            length = path.stat().st_size
            if not packed and length != begins + header.num_bytes:
                raise ValueError(f"it has {length} bytes, and its header says "
                                 f"{begins + header.num_bytes}")
            yield header, _blocks(stream, header, num_rows)
    except UserError:
        raise
    except (*_BROKEN, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path} cannot be read ({reason}): it may be damaged or cut short, fetch "
                        "it again") from error


def read_whole(path: Path, read_header: Callable[[io.BufferedIOBase], Header]) -> np.ndarray:
    """All entries of a file, in the byte order of this machine."""
    with opened(path, read_header) as (header, blocks):
        parts = list(blocks)
    return np.concatenate(parts).astype(header.dtype.newbyteorder("="), copy=False)


def _blocks(stream: io.BufferedIOBase, header: Header, num_rows: int) -> Iterator[np.ndarray]:
    row = header.num_bytes // header.shape[0]
    # Rows may be tiny or huge: a block is no more than a piece, unless a single row is.
    num_rows = max(1, min(num_rows, _PIECE // row)) if header.shape[0] > 1 else 1
    for start in range(0, header.shape[0], num_rows):
        num = min(num_rows, header.shape[0] - start)
        raw = _exactly(stream, num * row)
        yield np.frombuffer(raw, dtype=header.dtype).reshape(num, *header.shape[1:])
    if stream.read(1):
        raise ValueError("it goes on after the last entry")


def _exactly(stream: io.BufferedIOBase, num_bytes: int) -> bytes:
    """That many bytes, asked for in pieces: a packed file that ends early costs what it holds."""
    parts = []
    while num_bytes:
        part = stream.read(min(num_bytes, _PIECE))
        if not part:
            raise EOFError("it ends early")
        parts.append(part)
        num_bytes -= len(part)
    return b"".join(parts)
