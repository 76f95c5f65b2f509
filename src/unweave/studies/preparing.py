"""Images as an encoder of somebody else wants them: layout, range, channels, size.

Our images are bytes `[sample, height, width, channel]`. What is not said is found out from the
encoder where it tells (the shape and type of an ONNX input) and is the common case where it does
not: channels first, floats in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from unweave.types import UserError, unknown_name

LAYOUTS = ("nchw", "nhwc", "flat")
SCALES = {
    "unit": "floats in [0, 1]", "symmetric": "floats in [-1, 1]", "bytes": "0 to 255",
    "imagenet": "mean and deviation of ImageNet subtracted and divided, channel by channel",
}
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Preparation:
    """What to do with images before an encoder sees them; None means that nothing is known."""

    layout: str | None = None
    scale: str | None = None
    channels: int | None = None
    size: tuple[int, int] | None = None
    dtype: str = "float32"
    mean: tuple[float, ...] | None = None
    """With `std`, in place of `scale`: (x / 255 - mean) / std, channel by channel."""
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.layout is not None and self.layout not in LAYOUTS:
            raise unknown_name("layout", self.layout, LAYOUTS)
        if self.scale is not None and self.scale not in SCALES:
            raise unknown_name("scale", self.scale, SCALES)
        if self.channels not in (None, 1, 3):
            raise UserError(f"channels must be 1 or 3, got {self.channels}")
        if self.size is not None and min(self.size) < 1:
            raise UserError(f"a size must be at least 1, got {self.size}")

    def otherwise(self, found: Preparation) -> Preparation:
        """What was said, and where nothing was said what was found."""
        own = {name: value for name in ("layout", "scale", "channels", "size", "mean", "std")
               if (value := getattr(self, name)) is not None}
        if self.scale is not None:
            own |= {"mean": None, "std": None}
        return replace(found, **own)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Bytes `[sample, height, width, channel]` as the encoder wants them."""
        images = _with_channels(images, self.channels)
        if self.size is not None and images.shape[1:3] != self.size:
            images = _resized(images, self.size)
        scale = self.scale or ("bytes" if self.dtype == "uint8" else "unit")
        x = images if scale == "bytes" else images.astype(np.float32) / np.float32(255)
        mean, std = (self.mean, self.std) if self.mean is not None else (
            IMAGENET if scale == "imagenet" else (None, None))
        if scale == "symmetric":
            x = 2 * x - 1
        elif mean is not None and std is not None:
            x = (x - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
        if self.layout == "flat":
            x = x.reshape(len(x), -1)
        elif self.layout != "nhwc":
            x = x.transpose(0, 3, 1, 2)
        return np.ascontiguousarray(x, dtype=self.dtype)


def from_shape(shape: Sequence[object], image_shape: tuple[int, int, int],
               dtype: str) -> Preparation:
    """What the declared shape of an encoder's input says; names and None stand for any size."""
    known = [d if isinstance(d, int) and d > 0 else None for d in shape]
    if len(known) == 2:
        wanted = int(np.prod(image_shape))
        if known[1] not in (None, wanted):
            raise UserError(f"the encoder wants rows of {known[1]} numbers, and images of "
                            f"{'x'.join(map(str, image_shape))} make {wanted}")
        return Preparation("flat", dtype=dtype)
    if len(known) != 4:
        raise UserError(f"the encoder's input has the shape {list(shape)}: images have 4 axes, "
                        "flat ones 2")
    layout = _layout(known, image_shape)
    channels, height, width = ((known[1], known[2], known[3]) if layout == "nchw" else
                               (known[3], known[1], known[2]))
    size = None if height is None or width is None else (height, width)
    return Preparation(layout, None, channels, size, dtype)


def _layout(shape: list[int | None], image_shape: tuple[int, int, int]) -> str:
    """Channels are the axis with 1 or 3; if both could be, the one that the data agree with."""
    first, last = shape[1] in (1, 3), shape[3] in (1, 3)
    if first != last:
        return "nchw" if first else "nhwc"
    if first and last:
        return "nhwc" if (shape[1], shape[2]) == image_shape[:2] else "nchw"
    height, width = image_shape[:2]
    if shape[1] == height and shape[2] == width and shape[3] != width:
        return "nhwc"
    return "nchw"


def _with_channels(images: np.ndarray, wanted: int | None) -> np.ndarray:
    held = images.shape[-1]
    if wanted is None or wanted == held:
        return images
    if held == 1:
        return np.repeat(images, wanted, axis=-1)
    if wanted == 1:  # luma of ITU-R 601, as everywhere else here
        grey = images.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
        return np.round(grey).astype(np.uint8)[..., None]
    raise UserError(f"images of {held} channels cannot become images of {wanted}")


def _resized(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Bilinear, with the whole area below a pixel taken into account when shrinking (Pillow)."""
    height, width = size
    grey = images.shape[-1] == 1
    made = [np.asarray(Image.fromarray(image[..., 0] if grey else image).resize(
        (width, height), Image.Resampling.BILINEAR)) for image in images]
    out = np.stack(made)
    return out[..., None] if grey else out
