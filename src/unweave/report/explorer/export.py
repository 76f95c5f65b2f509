"""The page as plain files, for any web server: no program behind it, everything in the browser."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from unweave.report.explorer.facts import NUM_SAMPLE, Album, information_record, run_record
from unweave.report.explorer.listing import Catalogue
from unweave.report.explorer.server import PAGE, TYPES, list_record
from unweave.report.explorer.vendor import FILES, LICENCE
from unweave.training.onnx_graph import decoder_onnx, encoder_onnx
from unweave.types import UserError

MARK = "unweave-explorer.json"
"""Says that a folder was written here, and may be written again."""

MOST_RUNS = 24


def write_export(catalogue: Catalogue, out: Path, *, vendor: Path, title: str,
                 num_images: int = NUM_SAMPLE) -> list[Path]:
    """Write the page with all runs that can be opened; the files, in order.

    A new folder appears whole or not at all. An earlier export there is replaced; anything else is
    left alone and refused.
    """
    usable = {k: e for k, e in catalogue.entries.items() if not e.problem}
    if len(usable) > MOST_RUNS:
        raise UserError(f"{len(usable)} runs are too many for an export of {MOST_RUNS} at most: "
                        "name the run folders that should be in it")
    if num_images < 1:
        raise UserError(f"an export needs 1 image at least, got {num_images}")
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).is_file())):
        raise UserError(f"{out} exists and is not an earlier export: give another folder")
    out = out.resolve()  # the parent of "." would be itself
    shown = Catalogue(usable, catalogue.higher_is_better, catalogue.datasets)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as scratch:
        fresh = Path(scratch) / "files"
        _write(shown, fresh, vendor, title, num_images)
        if not out.exists():
            fresh.rename(out)
        else:  # its files alone: somebody may stand in the folder, or have mounted it
            earlier = Path(scratch) / "earlier"
            earlier.mkdir()
            # The mark goes last and comes first: what is broken off may be written again.
            for part in sorted(out.iterdir(), key=lambda path: path.name == MARK):
                shutil.move(part, earlier / part.name)
            for part in sorted(fresh.iterdir(), key=lambda path: path.name != MARK):
                shutil.move(part, out / part.name)
    return sorted(path for path in out.rglob("*") if path.is_file())


def _write(catalogue: Catalogue, out: Path, vendor: Path, title: str, num_images: int) -> None:
    (out / "vendor").mkdir(parents=True)
    for path in PAGE.iterdir():
        if path.suffix in TYPES:
            shutil.copyfile(path, out / path.name)
    for name in (*FILES, LICENCE):
        shutil.copyfile(vendor / name, out / "vendor" / name)
    data = out / "data"
    (data / "images").mkdir(parents=True)
    for run_id in catalogue.entries:
        run, folder = catalogue.run(run_id), data / "runs" / run_id
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(run_record(run)))
        (folder / "information.json").write_text(json.dumps(information_record(run)))
        (folder / "encoder.onnx").write_bytes(encoder_onnx(run))
        (folder / "decoder.onnx").write_bytes(decoder_onnx(run))
    for key in catalogue.data_keys:
        album = Album(catalogue.dataset(key))
        index = album.sample(num_images)
        (data / "images" / f"{key}.json").write_text(json.dumps(album.record(index)))
        (data / "images" / f"{key}.png").write_bytes(album.sheet(index))
    listing = list_record(catalogue, title=title, runtime="browser", is_static=True)
    (data / "runs.json").write_text(json.dumps(listing))
    (out / MARK).write_text(json.dumps({"written by": "unweave explore --export"}))
