"""Archives are read where they are: names lead nowhere, sizes are bounded."""

import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from published_files import noise, write_tar

from unweave.data.archive import Files, contents
from unweave.types import UserError

TEXT = re.compile(r"\.txt$")
GOOD = {"b/two.txt": b"two", "a/one.txt": b"one", "a/picture.png": b"no"}


def folder_of(path: Path) -> Path:
    for name, content in GOOD.items():
        (path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "folder" / name).write_bytes(content)
    return path / "folder"


def zip_of(path: Path) -> Path:
    with zipfile.ZipFile(path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in GOOD.items():
            archive.writestr(name, content)
    return path / "x.zip"


def tar_of(path: Path) -> Path:
    write_tar(path / "x.tar", GOOD)
    return path / "x.tar"


@pytest.mark.parametrize("make", [folder_of, zip_of, tar_of])
def test_the_same_files_from_everywhere(tmp_path: Path, make: object) -> None:
    path = make(tmp_path)
    files = Files(path, TEXT, 100)
    assert files.names == ["a/one.txt", "b/two.txt"]
    assert [files.read(name) for name in files.names] == [b"one", b"two"]
    assert sorted(contents(path, TEXT, 100)) == [("a/one.txt", b"one"), ("b/two.txt", b"two")]
    with pytest.raises(UserError, match="has 3 bytes, more than the 2"):
        Files(path, TEXT, 2)


def test_a_packed_tar_as_it_comes(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar.gz", GOOD, "w:gz")
    assert list(contents(tmp_path / "x.tar.gz", TEXT, 100)) == [("b/two.txt", b"two"),
                                                                ("a/one.txt", b"one")]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_links_and_paths_lead_nowhere(tmp_path: Path, mode: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    path = tmp_path / "evil.tar"
    with tarfile.open(path, mode) as archive:
        for name, kind, target in (("link.txt", tarfile.SYMTYPE, str(secret)),
                                   ("hard.txt", tarfile.LNKTYPE, "../secret.txt"),
                                   ("pipe.txt", tarfile.FIFOTYPE, ""),
                                   ("device.txt", tarfile.CHRTYPE, "")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        for name in ("../out.txt", "/tmp/out.txt"):
            info = tarfile.TarInfo(name)
            info.size = 4
            archive.addfile(info, io.BytesIO(b"evil"))
    before = sorted(tmp_path.iterdir())
    assert {content for _, content in contents(path, TEXT, 100)} == {b"evil"}
    if mode == "w":
        files = Files(path, TEXT, 100)
        assert files.names == ["../out.txt", "/tmp/out.txt"]
        assert files.read("../out.txt") == b"evil"  # from the archive, not from a path
    assert sorted(tmp_path.iterdir()) == before


def test_bombs_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.txt", bytes(10_000_000))
    assert path.stat().st_size < 20_000
    with pytest.raises(UserError, match="10,000,000 bytes"):
        Files(path, TEXT, 1000)
    # One that lies about what it inflates to: both headers say 5 bytes.
    lying = path.read_bytes().replace((10_000_000).to_bytes(4, "little"),
                                      (5).to_bytes(4, "little"))
    path.write_bytes(lying)
    files = Files(path, TEXT, 1000)
    with pytest.raises((zipfile.BadZipFile, EOFError)):
        files.read("x.txt")
    write_tar(tmp_path / "bomb.tar.gz", {"x.txt": bytes(10_000_000)}, "w:gz")
    with pytest.raises(UserError, match="10,000,000 bytes"):
        list(contents(tmp_path / "bomb.tar.gz", TEXT, 1000))


def test_damaged_archives_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"", b"no archive" * 100, tar_of(tmp_path).read_bytes()[:700]):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"cannot be read \(.* no zip or tar"):
            Files(path, TEXT, 100)
    write_tar(path, {"x.txt": noise(50_000).tobytes()}, "w:gz")
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(UserError, match="cannot be read"):
        list(contents(path, TEXT, 100_000))
