"""NORB's matrices and idx files: what they hold, and that no bytes can do harm."""

import gzip
import io
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from published_files import IDX_KIND, NORB_MAGIC, idx_bytes, norb_bytes

from unweave.data.matrix import idx_header, norb_header, opened, read_whole
from unweave.types import UserError

FORMATS = pytest.mark.parametrize("kind", ["norb", "idx"])
HEADER = {"norb": norb_header, "idx": idx_header}
BYTES = {"norb": norb_bytes, "idx": idx_bytes}
QUICK = settings(max_examples=150, deadline=None, database=None, derandomize=True,
                 suppress_health_check=[HealthCheck.function_scoped_fixture])
LIMIT = 24 << 20
"""Memory that no damaged file of a few hundred bytes may take."""


@pytest.mark.parametrize("packed", [False, True])
@FORMATS
def test_every_kind_of_number_and_shape(tmp_path: Path, kind: str, packed: bool) -> None:
    for number, name in enumerate(NORB_MAGIC if kind == "norb" else IDX_KIND):
        for shape in [(5,), (2, 3), (2, 3, 4), (2, 2, 3, 4)]:
            array = (np.arange(np.prod(shape)) * 37 % 256 - 100).astype(name).reshape(shape)
            content = BYTES[kind](array)
            path = tmp_path / f"{number}"
            path.write_bytes(gzip.compress(content) if packed else content)
            found = read_whole(path, HEADER[kind])
            assert found.dtype == np.dtype(name)
            np.testing.assert_array_equal(found, array)


def test_the_worked_header(tmp_path: Path) -> None:
    # One axis of two bytes: NORB still writes three lengths.
    content = bytes.fromhex("554c3d1e 01000000 02000000 01000000 01000000 ff80")
    (tmp_path / "x").write_bytes(content)
    assert read_whole(tmp_path / "x", norb_header).tolist() == [255, 128]
    (tmp_path / "x").write_bytes(bytes.fromhex("00000801 00000002 ff80"))
    assert read_whole(tmp_path / "x", idx_header).tolist() == [255, 128]


def test_blocks(tmp_path: Path) -> None:
    array = np.arange(70, dtype=np.uint8).reshape(7, 10)
    (tmp_path / "x").write_bytes(idx_bytes(array))
    with opened(tmp_path / "x", idx_header, num_rows=3) as (header, blocks):
        assert header.shape == (7, 10)
        parts = list(blocks)
    assert [len(part) for part in parts] == [3, 3, 1]
    np.testing.assert_array_equal(np.concatenate(parts), array)


@pytest.mark.parametrize("packed", [False, True])
@FORMATS
def test_short_and_long_files_are_told(tmp_path: Path, kind: str, packed: bool) -> None:
    content = BYTES[kind](np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
    for wrong, why in ((content[:-1], "ends early|bytes, and its header says"),
                       (content + b"x", "goes on|bytes, and its header says"),
                       (content[:6], "ends early"), (b"", "ends early")):
        path = tmp_path / "x"
        path.write_bytes(gzip.compress(wrong) if packed else wrong)
        with pytest.raises(UserError, match=rf"cannot be read \(.*({why})"):
            read_whole(path, HEADER[kind])
    with pytest.raises(UserError, match="no file"):
        read_whole(tmp_path / "nothing", HEADER[kind])


def test_a_header_that_claims_much_costs_little(tmp_path: Path) -> None:
    for length in (2**31 - 1, 2**29, 2**20):
        content = struct.pack("<Ii4i", NORB_MAGIC["uint8"], 4, length, 2, 96, 96)
        for packed in (False, True):
            (tmp_path / "x").write_bytes(gzip.compress(content) if packed else content)
            tracemalloc.start()
            with pytest.raises(UserError, match="cannot be read"):
                read_whole(tmp_path / "x", norb_header)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert most < LIMIT


def test_a_bomb_ends_where_its_header_says(tmp_path: Path) -> None:
    content = idx_bytes(np.zeros(5, dtype=np.uint8)) + bytes(64 << 20)
    (tmp_path / "x").write_bytes(gzip.compress(content))
    tracemalloc.start()
    with pytest.raises(UserError, match="goes on after the last entry"):
        read_whole(tmp_path / "x", idx_header)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < LIMIT


def assert_harmless(path: Path, content: bytes, kind: str) -> None:
    """Either an array that the bytes really hold, or one sentence."""
    path.write_bytes(content)
    tracemalloc.start()
    said, found = "", None
    try:
        found = read_whole(path, HEADER[kind])
    except UserError as error:
        said = str(error)
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "\n" not in said
    if found is not None:
        held = len(gzip.decompress(content)) if content[:2] == b"\x1f\x8b" else len(content)
        assert found.nbytes < held
    assert most < LIMIT


@FORMATS
@QUICK
@given(content=st.binary(max_size=200), packed=st.booleans())
def test_any_bytes(tmp_path: Path, kind: str, content: bytes, packed: bool) -> None:
    assert_harmless(tmp_path / "x", gzip.compress(content) if packed else content, kind)


@FORMATS
@QUICK
@given(data=st.data())
def test_any_header_before_any_bytes(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    magics = {"norb": [struct.pack("<I", m) for m in NORB_MAGIC.values()],
              "idx": [bytes([0, 0, k]) for k in IDX_KIND.values()]}[kind]
    axes = data.draw(st.integers(0, 255))
    head = data.draw(st.sampled_from(magics)) + (
        struct.pack("<i", axes) if kind == "norb" else bytes([axes]))
    lengths = data.draw(st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 5), max_size=6))
    order = "<" if kind == "norb" else ">"
    content = head + struct.pack(f"{order}{len(lengths)}I", *lengths) + data.draw(
        st.binary(max_size=100))
    packed = data.draw(st.booleans())
    assert_harmless(tmp_path / "x", gzip.compress(content) if packed else content, kind)


@FORMATS
@QUICK
@given(data=st.data())
def test_a_good_file_with_damage(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    content = BYTES[kind](np.arange(48, dtype=np.int32).reshape(2, 4, 6))
    if data.draw(st.booleans()):
        content = gzip.compress(content)
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    assert_harmless(tmp_path / "x", bytes(damaged[:cut] if data.draw(st.booleans()) else damaged),
                    kind)


def test_a_stream_of_one_byte_at_a_time() -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size, 1))

    assert norb_header(Slow(norb_bytes(np.zeros((2, 3), np.uint8)))).shape == (2, 3)
