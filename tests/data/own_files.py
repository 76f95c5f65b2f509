"""Small files of the user's own, for tests: a folder, arrays, and a Hugging Face data set."""

import io
import json
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image


def pictures(num=12, height=10, width=14, channels=3, seed=0):
    """Noise, `[num, height, width, channels]`."""
    rng = np.random.Generator(np.random.Philox(seed))
    return rng.integers(256, size=(num, height, width, channels), dtype=np.uint8)


def save_pictures(folder: Path, images, pattern="{:02d}.png"):
    """One file for each image; their names."""
    names = [pattern.format(k) for k in range(len(images))]
    for name, image in zip(names, images):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(folder / name)
    return names


def make_folder(folder: Path) -> str:
    save_pictures(folder, pictures())
    return f"images:{folder},size=32"


def make_npz(folder: Path) -> str:
    np.savez(folder / "a.npz", images=pictures(channels=1)[..., 0], year=np.arange(12))
    return f"npz:{folder / 'a.npz'},size=16,crop=none,resize=area"


def make_npy(folder: Path) -> str:
    np.save(folder / "a.npy", pictures(height=64, width=64))
    return f"npy:{folder / 'a.npy'}"


def make_hub(folder: Path) -> str:
    save_hub(folder / "hub", pictures(), {"digit": [k % 3 for k in range(12)],
                                          "pen": [f"pen {k // 3}" for k in range(12)]})
    return f"hf:{folder / 'hub'},size=32"


MAKERS = {"images": make_folder, "npz": make_npz, "npy": make_npy, "hf": make_hub}


def png(image) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


def save_hub(folder: Path, images, columns, raw=()):
    """A data set as `save_to_disk` writes it, by the package itself if it is installed.

    Else a module of that name stands in, with the few calls that are made of it. `raw` are bytes
    of further images.
    """
    cells = [*map(png, images), *raw]
    if not isinstance(sys.modules.get("datasets"), _StandIn) and find_spec("datasets"):
        import datasets

        made = datasets.Dataset.from_dict(
            {"image": [{"bytes": cell, "path": None} for cell in cells], **columns})
        made.cast_column("image", datasets.Image()).save_to_disk(str(folder))
        return
    sys.modules["datasets"] = _stand_in()
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps(columns))
    for k, cell in enumerate(cells):
        (folder / f"{k:04d}.cell").write_bytes(cell)


class _StandIn(types.ModuleType):
    """In place of the package."""


class _Image:
    def __init__(self, decode=True):
        self.decode = decode


class _Table:
    def __init__(self, columns, fingerprint):
        self.columns, self._fingerprint = columns, fingerprint
        self.features = {k: _Image() if k == "image" else None for k in columns}

    @property
    def column_names(self):
        return list(self.columns)

    def __len__(self):
        return len(self.columns["image"])

    def __getitem__(self, key):
        if isinstance(key, str):
            return self.columns[key]
        return {k: v[key] for k, v in self.columns.items()}

    def select_columns(self, names):
        return _Table({k: self.columns[k] for k in names}, self._fingerprint)

    def cast_column(self, name, kind):
        return self


def _stand_in():
    def load_from_disk(name):
        folder = Path(name)
        images = [{"bytes": p.read_bytes(), "path": None} for p in sorted(folder.glob("*.cell"))]
        return _Table({"image": images, **json.loads((folder / "state.json").read_text())}, name)

    def load_dataset(name, config=None, split=None):
        raise FileNotFoundError(f"{name} is not on the hub")

    module = _StandIn("datasets")
    module.Image = _Image
    module.load_from_disk, module.load_dataset = load_from_disk, load_dataset
    return module
