"""onnxruntime-web, which runs decoders in the browser: found, or fetched with npm and checked.

    python -m unweave.report.explorer.vendor          into the package, for a build of wheels
    python -m unweave.report.explorer.vendor --cache  into the user's cache folder

It is somebody else's program and never part of this repository: npm packs the version that
`package.json` names, the archive must have the checksum below, and three files and the licence are
kept. Their endings become `.js` and `.wasm`, which every web server has a type for. No script of
the archive is run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from unweave.data.fetch import data_folder
from unweave.types import UserError

HERE = Path(__file__).parent
PACKAGE = "onnxruntime-web"
CHECKSUM = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
"""SHA-256 of the archive of the version in package.json."""

FILES = {
    "ort.js": "dist/ort.wasm.min.mjs",
    "ort-wasm.js": "dist/ort-wasm-simd-threaded.mjs",
    "ort-wasm.wasm": "dist/ort-wasm-simd-threaded.wasm",
}
"""Our name to the name in the archive: the build for WebAssembly alone."""

LICENCE = "LICENSE-onnxruntime-web.txt"
_NPM_SECONDS = 300

_MIT = """{package} {version}
Copyright (c) Microsoft Corporation. All rights reserved.

MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

What it contains of others is listed in ThirdPartyNotices.txt of the onnxruntime project.
"""


def version() -> str:
    """The version that `package.json` names."""
    return json.loads((HERE / "package.json").read_text())["dependencies"][PACKAGE]


def folders() -> tuple[Path, Path]:
    """Where the files are looked for: in the package, then in the user's cache folder."""
    return HERE / "vendor", data_folder() / "explorer" / f"{PACKAGE}-{version()}"


def find() -> Path | None:
    """The folder that holds the files, if there is one."""
    wanted = (*FILES, LICENCE)
    return next((folder for folder in folders()
                 if all((folder / name).is_file() for name in wanted)), None)


def find_or_fetch() -> Path:
    """The folder that holds the files; npm fetches them into the cache folder where it can."""
    return find() or fetch(folders()[1])


def fetch(folder: Path) -> Path:
    """Let npm pack the archive, check it, and put the files into `folder`, all or none."""
    npm = shutil.which("npm")
    if npm is None:
        raise UserError(f"{PACKAGE} is not here and npm, which fetches it, is not installed: "
                        "install npm, or a wheel of unweave that was built with it")
    with tempfile.TemporaryDirectory() as scratch:
        command = [npm, "pack", f"{PACKAGE}@{version()}", "--ignore-scripts", "--silent",
                   "--pack-destination", scratch]
        try:
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True,
                                  timeout=_NPM_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"npm could not fetch {PACKAGE} ({type(error).__name__}): try again "
                            "when there is a network") from None
        archives = list(Path(scratch).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            reason = " ".join(lines[:1]) or f"exit code {done.returncode}"
            raise UserError(f"npm could not fetch {PACKAGE} ({reason[:160]}): try again when "
                            "there is a network")
        return unpack(archives[0], folder)


def unpack(archive: Path, folder: Path) -> Path:
    """Take the files out of a checked archive; the licence comes with them."""
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != CHECKSUM:
        raise UserError(f"the archive of {PACKAGE} is not the one that was looked at (its SHA-256 "
                        f"begins with {found[:8]}): nothing of it is used")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        fresh = Path(scratch) / "files"
        fresh.mkdir()
        with tarfile.open(archive) as tar:
            held = set(tar.getnames())
            for name, inside in FILES.items():
                member = tar.extractfile(f"package/{inside}")
                assert member is not None
                (fresh / name).write_bytes(member.read())
            licence = _MIT.format(package=PACKAGE, version=version())
            if "package/LICENSE" in held:
                member = tar.extractfile("package/LICENSE")
                licence = member.read().decode() if member else licence
            (fresh / LICENCE).write_text(licence)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    return folder


def main() -> None:
    """Fill the package's folder, or with `--cache` the user's."""
    from unweave.report.tables import size_of

    try:
        folder = fetch(folders()[1 if "--cache" in sys.argv[1:] else 0])
    except UserError as error:
        sys.exit(f"unweave: {error}")
    for file in sorted(folder.iterdir()):
        print(f"{file}  {size_of(file.stat().st_size)}")


if __name__ == "__main__":
    main()
