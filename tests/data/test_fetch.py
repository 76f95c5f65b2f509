"""Downloads, from a server on this machine."""

import hashlib
import io
import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unweave.cli import main
from unweave.data import DATASETS
from unweave.data import fetch as fetch_function
from unweave.data.fetch import SOURCES, data_folder, fetch, fetch_all, on_disk, stored_path
from unweave.data.painting import read_painting
from unweave.data.sources import Source, holds_images, is_tar
from unweave.types import UserError

BODY = np.random.Generator(np.random.Philox(0)).bytes(300_000)


class Server:
    """Serves bytes by path; can refuse ranges, or break off after some bytes."""

    def __init__(self) -> None:
        self.files, self.ranges, self.asked = {"/file": BODY}, True, []
        self.break_after: int | None = None
        self.hold: threading.Event | None = None
        self.content_range = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append(wanted)
        body = self.files.get(request.path.partition("?")[0])
        start = int(wanted[6:-1]) if wanted and self.ranges else 0
        if body is None or start >= len(body):
            request.send_error(404 if body is None else 416)
            return
        request.send_response(206 if wanted and self.ranges else 200)
        request.send_header("Content-Length", str(len(body) - start))
        if self.content_range:
            request.send_header("Content-Range", self.content_range)
        request.end_headers()
        request.wfile.write(body[start:][:self.break_after][:100_000])
        if self.hold is not None:
            self.hold.wait(10)
        request.wfile.write(body[start:][:self.break_after][100_000:])


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.upper(), raising=False)
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def source(monkeypatch: pytest.MonkeyPatch, *urls: str, **checks: object) -> None:
    if not checks:
        checks = {"sha256": hashlib.sha256(BODY).hexdigest()}
    entry = Source(urls=urls, file="file.bin", licence="none", summary="a test", **checks)
    monkeypatch.setitem(SOURCES, "thing", entry)


def test_fetch(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(monkeypatch, server.url + "/file")
    seen = []
    path = fetch("thing", progress=lambda *report: seen.append(report))
    assert path == folder / "file.bin" == stored_path("thing")
    assert path.read_bytes() == BODY
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))
    record = json.loads((folder / "file.bin.source.json").read_text())
    assert record["sha256"] == hashlib.sha256(BODY).hexdigest()
    assert record["url"] == server.url + "/file"
    assert sorted(p.name for p in folder.iterdir()) == ["file.bin", "file.bin.source.json"]
    assert fetch("thing") == path
    assert len(server.asked) == 1
    assert fetch_function is fetch


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_is_taken_up(server: Server, folder: Path, ranges: bool,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    source(monkeypatch, server.url + "/file")
    server.break_after = 100_000
    with pytest.raises(UserError, match="broke after 100000 of 300000 bytes"):
        fetch("thing")
    assert not (folder / "file.bin").exists()
    server.break_after, server.ranges = None, ranges
    assert fetch("thing").read_bytes() == BODY
    assert server.asked == [None, "bytes=100000-"]


def test_a_whole_part_is_only_checked(server: Server, folder: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.url + "/file"
    source(monkeypatch, url)
    folder.mkdir()
    mark = hashlib.sha256(url.encode()).hexdigest()[:8]
    (folder / f"file.bin.{mark}.part").write_bytes(BODY)
    assert fetch("thing").read_bytes() == BODY


def test_two_at_once_fetch_one_file(server: Server, folder: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Both appended to one part: the file had more than the whole, after it had been checked."""
    pytest.importorskip("fcntl")
    source(monkeypatch, server.url + "/file")
    server.hold, begun = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:  # as two processes would
        first = pool.submit(fetch, "thing", progress=lambda *report: begun.set())
        assert begun.wait(10)
        second = pool.submit(fetch, "thing")
        for _ in range(30):
            time.sleep(0.01 if len(server.asked) == 1 else 0)
        server.hold.set()
        assert first.result(10) == second.result(10) == folder / "file.bin"
    assert server.asked == [None]
    assert (folder / "file.bin").read_bytes() == BODY
    assert sorted(p.name for p in folder.iterdir()) == ["file.bin", "file.bin.source.json"]


@pytest.mark.parametrize("checks", [{"sha256": "0" * 64}, {"num_bytes": 5},
                                    {"check": read_painting}])
def test_a_wrong_file_is_refused(server: Server, folder: Path, checks: dict[str, object],
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    source(monkeypatch, server.url + "/file", **checks)
    with pytest.raises(UserError, match="refused and removed"):
        fetch("thing")
    assert list(folder.iterdir()) == []


def test_a_stored_file_with_another_checksum_is_told(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source(monkeypatch, "http://127.0.0.1:9/file")
    folder.mkdir()
    (folder / "file.bin").write_bytes(b"other")
    with pytest.raises(UserError, match="its SHA-256 is"):
        fetch("thing")


def test_the_next_address_is_tried(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    source(monkeypatch, server.url + "/none", server.url + "/file")
    assert fetch("thing").read_bytes() == BODY


def test_offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
        source(monkeypatch, url)
        with pytest.raises(UserError, match="could not fetch thing") as caught:
            fetch("thing")
    assert str(folder / "file.bin") in str(caught.value)
    assert url in str(caught.value)


def test_a_painting_is_checked_for_being_one(server: Server,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (300, 400), (9, 8, 7)).save(buffer, format="PNG")
    server.files["/scream"] = buffer.getvalue()
    source(monkeypatch, server.url + "/scream", check=SOURCES["scream"].check)
    assert read_painting(fetch("thing")).shape[2] == 3


def test_names_and_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'scream'"):
        fetch("screem!")
    monkeypatch.delenv("UNWEAVE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert data_folder() == tmp_path / "unweave"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_folder() == tmp_path / "local" / "unweave"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_folder().parts[-3:] == ("Library", "Caches", "unweave")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match="set UNWEAVE_DATA"):
        fetch("scream")


def test_every_source_can_be_checked() -> None:
    for entry in (part for source in SOURCES.values() for part in source.files):
        assert entry.urls or entry.page
        assert entry.licence
        assert entry.sha256 or entry.md5 or entry.check is not None
    assert {entry.fetch for entry in DATASETS.values()} - {""} <= set(SOURCES)


def test_md5(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    source(monkeypatch, server.url + "/file", md5=hashlib.md5(BODY).hexdigest())
    assert fetch("thing").read_bytes() == BODY
    fetch("thing").write_bytes(b"other")
    with pytest.raises(UserError, match="but its MD5 is"):
        fetch("thing")


def test_several_files(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/two"] = b"two"
    two = Source((server.url + "/two",), "below/two.bin", "none", "a test", num_bytes=3)
    one = Source((server.url + "/file",), "below/one.bin", "none", "a test",
                 num_bytes=len(BODY), more=(two,))
    monkeypatch.setitem(SOURCES, "pair", one)
    assert on_disk("pair") is None
    assert fetch_all("pair") == [folder / "below/one.bin", folder / "below/two.bin"]
    assert on_disk("pair") == len(BODY) + 3
    assert fetch("pair") == folder / "below/one.bin"
    assert len(server.asked) == 2


def test_terms_are_for_a_person(folder: Path) -> None:
    with pytest.raises(UserError, match="accept the terms at https://mmlab") as caught:
        fetch("celeba")
    assert str(folder / "celeba" / "img_align_celeba.zip") in str(caught.value)
    assert str(caught.value).endswith("2 files: img_align_celeba.zip, list_attr_celeba.txt")
    assert not folder.exists()


def test_a_full_disk_is_told_once(server: Server, folder: Path,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.url + "/file"
    source(monkeypatch, url, server.url + "/file?again")
    folder.mkdir()
    mark = hashlib.sha256(url.encode()).hexdigest()[:8]
    if Path("/dev/full").exists():
        (folder / f"file.bin.{mark}.part").symlink_to("/dev/full")
        with pytest.raises(UserError, match="no space is left for") as caught:
            fetch("thing")
        assert str(caught.value).count("http") == 0
        (folder / f"file.bin.{mark}.part").unlink()
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage",
                        lambda path: usage._replace(free=299_999))
    with pytest.raises(UserError, match="no space is left for"):
        fetch("thing")
    assert list(folder.iterdir()) == []
    assert len(server.asked) <= 2


def test_a_write_that_was_cut_short_is_not_taken_for_whole(
        server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with a little room left takes a part of a block, and says so by a number alone."""
    source(monkeypatch, server.url + "/file")

    class Half(io.FileIO):
        def write(self, block: bytes) -> int:
            return super().write(block[:len(block) // 2])

    def opened(path: Path, mode: str, buffering: int) -> Half:
        return Half(path, mode)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(UserError, match="no space is left for"):
            fetch("thing")
    assert fetch("thing").read_bytes() == BODY  # a later start goes on where it was
    assert len(server.asked) == 2


def test_a_place_that_cannot_be_written_is_told(server: Server, folder: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.url + "/file"
    source(monkeypatch, url)
    mark = hashlib.sha256(url.encode()).hexdigest()[:8]
    (folder / f"file.bin.{mark}.part").mkdir(parents=True)  # root may write anywhere else
    with pytest.raises(UserError, match=r"cannot write .*: set UNWEAVE_DATA"):
        fetch("thing")


def test_a_range_that_was_not_asked_for_is_refused(server: Server, folder: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    source(monkeypatch, server.url + "/file")
    server.break_after = 100_000
    with pytest.raises(UserError, match="broke after"):
        fetch("thing")
    server.break_after, server.content_range = None, "bytes 0-99/300000"
    with pytest.raises(UserError, match="the server sent bytes 0-99"):
        fetch("thing")
    server.content_range = "bytes 100000-299999/300000"
    assert fetch("thing").read_bytes() == BODY


@pytest.mark.parametrize("body", [b"", b"no archive at all" * 100])
def test_archives_are_checked_for_being_one(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "file").write_bytes(body)
    with pytest.raises(UserError, match="it is not a whole npz"):
        holds_images("images")(tmp_path / "file")
    with pytest.raises(UserError, match=r"it is (not a|an empty) tar"):
        is_tar(tmp_path / "file")
    np.savez(tmp_path / "other.npz", pictures=np.zeros(3))
    with pytest.raises(UserError, match="without an array `images`"):
        holds_images("images")(tmp_path / "other.npz")
    holds_images("pictures")(tmp_path / "other.npz")


def test_the_command_tells_how_it_gets_on(server: Server, folder: Path,
                                          monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    source(monkeypatch, server.url + "/file")
    with pytest.raises(SystemExit) as left:
        main(["data", "fetch", "thing", "--json"])
    assert left.value.code == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == [{"name": "thing", "file": str(folder / "file.bin"),
                                        "size": "300 kB"}]
    assert "file.bin: 300000/300000  bytes, 300 kB" in printed.err


def test_the_list_tells_what_is_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    (folder / "mpi3d_toy.npz").write_bytes(bytes(1500))
    with pytest.raises(SystemExit):
        main(["data", "list", "--json"])
    here = {entry["name"]: entry["here"] for entry in json.loads(capsys.readouterr().out)}
    assert here["mpi3d_toy"] == "1.5 kB"
    assert here["mpi3d_real"] == here["smallnorb"] == "no"
    assert here["dsprites"] is None
