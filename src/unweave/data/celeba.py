"""CelebA: 202,599 photographs of faces with 40 attributes, Liu et al. 2015, aligned and cropped.

It has no factors: nobody can ask for the same face with another attribute. It trains all the same,
and the attributes are labels, 1 where one is present and 0 where not, for the metrics that fix
nothing. Photographs of 178 x 218 lose what is above and below their largest square.
"""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from unweave.data.archive import BROKEN, Files
from unweave.data.dataset import BytePixels, DatasetEntry, FactorDataset
from unweave.data.framing import OPTIONS, UNREADABLE, Framing
from unweave.data.published import PART, place, wants_part
from unweave.data.stored import each, key_of, stored_images
from unweave.factors import FactorSpace, LabelTable
from unweave.types import UserError

NUM_IMAGES = 202_599
SIZE = (178, 218)
TABLE = "list_attr_celeba.txt"
WHAT = f"the folder with img_align_celeba (or its zip) and {TABLE}"
ATTRIBUTES = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs",
    "Big_Lips", "Big_Nose", "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows",
    "Chubby", "Double_Chin", "Eyeglasses", "Goatee", "Gray_Hair", "Heavy_Makeup",
    "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache", "Narrow_Eyes", "No_Beard",
    "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks", "Sideburns",
    "Smiling", "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat",
    "Wearing_Lipstick", "Wearing_Necklace", "Wearing_Necktie", "Young")

_PHOTOGRAPH = re.compile(r"(^|/)\d{6}\.jpg$")
_MAX_BYTES = 1 << 20  # ten times the largest photograph
_FORMAT = 1  # of the cached file: a change in how images are read makes a new one


def load(name: str, file: Path | None, *, skip: str = "", part: str = "no",
         **framing: str) -> FactorDataset:
    """From a folder with the photographs or their zip, and the table of attributes."""
    if skip not in ("", "unreadable"):
        raise UserError(f"skip={skip} of {name} is not understood: unreadable is what can be said")
    folder = place("celeba", file, "celeba", WHAT)
    accept_part = wants_part(name, part)
    photographs, table = _places(folder)
    files = Files(photographs, _PHOTOGRAPH, _MAX_BYTES)
    by_number = {path.rpartition("/")[2]: path for path in files.names}
    numbers = sorted(by_number)
    if len(numbers) != NUM_IMAGES and not (accept_part and numbers):
        raise UserError(f"{photographs} has {len(numbers)} photographs, CelebA has {NUM_IMAGES}: "
                        "fetch it again, or take what is there with part=yes")
    labels = read_attributes(table, numbers)
    rules = Framing.of(framing)

    def describe(row: int, error: BaseException) -> str:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        return f"{numbers[row]} cannot be used ({reason})"

    make = each(lambda row: _read(files.read(by_number[numbers[row]]), rules), rules.shape,
                (*UNREADABLE, *BROKEN), describe)
    key = key_of(["celeba", _FORMAT, repr(rules), files.state])
    stored = stored_images(key, len(numbers), rules.shape, make, label="celeba")
    keep = np.arange(len(numbers))
    if stored.unreadable:
        keep = np.setdiff1d(keep, list(stored.unreadable))
        first = stored.unreadable[min(stored.unreadable)]
        said = f"{len(stored.unreadable)} of {len(numbers)} photographs, the first: {first}"
        if skip != "unreadable" or not len(keep):
            raise UserError(f"{said}; repair them, or leave them out with skip=unreadable")
        warnings.warn(f"left out are {said}", stacklevel=2)
    kept = LabelTable(labels.names, labels.values[keep], labels.types)
    order = None if len(keep) == len(numbers) else keep
    return FactorDataset(name, FactorSpace.without_factors(len(keep)),
                         BytePixels(stored.images, order), labels=kept)


def _places(folder: Path) -> tuple[Path, Path]:
    """Where the photographs are, and the table: beside them, or beside their zip."""
    if folder.is_dir():
        zipped = folder / "img_align_celeba.zip"
        inside = folder / "img_align_celeba"
        photographs = inside if inside.is_dir() else zipped if zipped.is_file() else folder
        tables = [folder / TABLE, folder / "Anno" / TABLE, folder.parent / TABLE]
    else:
        photographs, tables = folder, [folder.parent / TABLE]
    for table in tables:
        if table.is_file():
            return photographs, table
    raise UserError(f"the attributes are not at {tables[0]}: put {TABLE} there, beside the "
                    "photographs")


def _read(content: bytes, framing: Framing) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as picture:
        if picture.size != SIZE:
            raise ValueError(f"it has {picture.width} x {picture.height} pixels, a photograph of "
                             f"the aligned set has {SIZE[0]} x {SIZE[1]}")
        if picture.mode != "RGB":
            raise ValueError("it is not in colour")
    return framing.read(io.BytesIO(content))


def read_attributes(path: Path, numbers: list[str]) -> LabelTable:
    """The rows of the given photographs, 0 and 1, from the published text file of -1 and 1."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}): fetch it again") from error
    names = tuple(lines[1].split()) if len(lines) > 1 else ()
    if not names or not lines[0].strip().isdecimal():
        raise UserError(f"{path} does not begin with a number of rows and a line of names: it is "
                        f"not {TABLE}")
    if int(lines[0]) != sum(bool(line.strip()) for line in lines[2:]):
        raise UserError(f"{path} says {lines[0].strip()} rows and has "
                        f"{sum(bool(line.strip()) for line in lines[2:])}: fetch it again")
    rows = {line.split(maxsplit=1)[0]: line for line in lines[2:] if line.strip()}
    parts = []
    for number in numbers:
        said = rows.get(number, "").split()[1:]
        digits = "".join(said).replace("-1", "x")  # one letter a word, 1 or x, if all is well
        if len(said) != len(names) or len(digits) != len(names) or digits.strip("1x"):
            what = "no row" if number not in rows else "a row that is not one of -1 and 1"
            raise UserError(f"{path} has {what} for {number} with {len(names)} attributes: fetch "
                            "it again")
        parts.append(digits)
    letters = np.frombuffer("".join(parts).encode(), dtype=np.uint8)
    table = (letters == ord("1")).astype(np.int64).reshape(len(numbers), len(names))
    return LabelTable(names, table, ("categorical",) * len(names))


CELEBA = DatasetEntry(
    summary="photographs of faces with 40 attributes as labels, no factors",
    space=FactorSpace.without_factors(NUM_IMAGES), image_shape=(64, 64, 3),
    licence="for research that is not commercial, by agreement",
    source="Liu et al. 2015, https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    size="2.5 GB, mapped", obtained="by hand, once its terms are accepted; read once, then cached",
    load=load, file=WHAT, fetch="celeba",
    labels=ATTRIBUTES,
    options={k: OPTIONS[k] for k in ("size", "crop", "resize", "channels")} | PART | {
        "skip": "unreadable leaves out photographs that cannot be read; without it they are "
                "errors"})
