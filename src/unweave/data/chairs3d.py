"""3D Chairs: 1,393 chair models from 62 directions, Aubry et al. 2014, from its tar or folders.

A rendering is called `MODEL/renders/image_NNN_pPPP_tTTT_rRRR.png`: p is the elevation, t the
azimuth. Two elevations and 31 azimuths make a grid with the models, so that is what the factors
are. Files whose names do not say so, or that leave holes for which `part=yes` was not said, are
refused. The renderings are large, and white around the chair: `crop` decides how much of that goes.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np

from unweave.data.archive import BROKEN, Files
from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.framing import OPTIONS, UNREADABLE, Framing
from unweave.data.published import PART, place, some_of, wants_part
from unweave.data.stored import each, key_of, stored_images
from unweave.factors import FactorSpace
from unweave.types import Factors, UserError

NUM_MODELS, NUM_ELEVATIONS, NUM_AZIMUTHS = 1393, 2, 31
ELEVATIONS = (20, 30)
_ASKEW = 2.0  # degrees that an angle may be off
WHAT = "rendered_chairs.tar, or the folder rendered_chairs"
_RENDERING = re.compile(r"(^|/)(?P<model>[^/]+)/renders/"
                        r"image_\d+_p(?P<p>\d+)_t(?P<t>\d+)_r\d+\.png$")
_MAX_BYTES = 8 << 20
_FORMAT = 1  # of the cached file: a change in how images are read makes a new one


def space_of(num_models: int) -> FactorSpace:
    """Models, elevations and azimuths."""
    return FactorSpace(("model", "elevation", "azimuth"),
                       (num_models, NUM_ELEVATIONS, NUM_AZIMUTHS),
                       types=("categorical", "ordinal", "circular"))


def load(name: str, file: Path | None, *, part: str = "no", **framing: str) -> FactorDataset:
    """From the tar, a zip, or the folder that was unpacked from it."""
    path = place("chairs3d", file, "rendered_chairs.tar", WHAT)
    accept_part = wants_part(name, part)
    files = Files(path, _RENDERING, _MAX_BYTES)
    space, rows = _factors(path, files.names, accept_part)
    order = np.argsort(space.index(rows))
    names = [files.names[k] for k in order]
    rules = Framing.of({"crop": "none"} | framing)

    def describe(row: int, error: BaseException) -> str:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        return f"{names[row]} cannot be used ({reason})"

    make = each(lambda row: rules.read(io.BytesIO(files.read(names[row]))), rules.shape,
                (*UNREADABLE, *BROKEN), describe)
    key = key_of(["chairs3d", _FORMAT, repr(rules), files.state])
    stored = stored_images(key, len(names), rules.shape, make, label="chairs3d")
    if stored.unreadable:
        first = stored.unreadable[min(stored.unreadable)]
        raise UserError(f"{len(stored.unreadable)} of {len(names)} renderings in {path}, the "
                        f"first: {first}; fetch it again, or remove their models and say part=yes")
    return FactorDataset(name, space, BytePixels(stored.images))


def _factors(path: Path, names: list[str], accept_part: bool) -> tuple[FactorSpace, Factors]:
    """Classes of each file, from its name: those of the whole set, also where a part is there."""
    found = [_RENDERING.search(name) for name in names]
    said = [(m["model"], int(m["p"]), int(m["t"])) for m in found if m is not None]
    models, heights = sorted({row[0] for row in said}), sorted({row[1] for row in said})
    angles = {p: sorted({row[2] for row in said if row[1] == p}) for p in heights}
    most = max((len(found) for found in angles.values()), default=0)
    if len(heights) > NUM_ELEVATIONS or most > NUM_AZIMUTHS or len(set(said)) != len(said):
        raise UserError(f"{path} has {len(said)} renderings of {len(models)} models from "
                        f"{len(heights)} elevations and {most} azimuths: 3D Chairs has each of "
                        f"{NUM_ELEVATIONS} x {NUM_AZIMUTHS} directions once")
    if len(said) != NUM_MODELS * NUM_ELEVATIONS * NUM_AZIMUTHS and not (accept_part and said):
        raise UserError(f"{path} has {len(said)} renderings MODEL/renders/image_*_p*_t*_r*.png, "
                        f"3D Chairs has {NUM_MODELS * NUM_ELEVATIONS * NUM_AZIMUTHS}: fetch it "
                        "again, or take what is there with part=yes")
    model = {value: k for k, value in enumerate(models)}
    rows = np.array([[model[m], _elevation(path, p), _azimuth(path, t)] for m, p, t in said])
    if len(np.unique(rows, axis=0)) != len(rows):
        raise UserError(f"{path} has two renderings of one model from one direction: 3D Chairs has "
                        f"each of {NUM_ELEVATIONS} x {NUM_AZIMUTHS} directions once")
    return some_of(space_of(len(models)), rows), rows


def _elevation(path: Path, degrees: int) -> int:
    if degrees not in ELEVATIONS:
        raise UserError(f"{path} has renderings from an elevation of {degrees} degrees: 3D Chairs "
                        f"has {' and '.join(map(str, ELEVATIONS))}")
    return ELEVATIONS.index(degrees)


def _azimuth(path: Path, degrees: int) -> int:
    """31 of them go round the chair; names have whole degrees: 0, 11, 23 ... 348."""
    turns = degrees * NUM_AZIMUTHS / 360
    number = round(turns)
    if number >= NUM_AZIMUTHS or abs(turns - number) > _ASKEW * NUM_AZIMUTHS / 360:
        raise UserError(f"{path} has renderings from an azimuth of {degrees} degrees: 3D Chairs "
                        f"has {NUM_AZIMUTHS}, which are 0, 11, 23 and on to 348")
    return number


CHAIRS3D = DatasetEntry(
    summary="rendered chairs from two heights and all sides",
    space=space_of(NUM_MODELS), image_shape=(64, 64, 3), licence="not stated; for research",
    source="Aubry et al. 2014, https://www.di.ens.fr/willow/research/seeing3Dchairs/",
    size="1.06 GB, mapped", obtained="`unweave data fetch chairs3d`, or from its tar; read once, "
    "then cached", load=load, file=WHAT,
    fetch="chairs3d",
    options={k: OPTIONS[k] for k in ("size", "crop", "resize", "channels", "background")} | PART)
