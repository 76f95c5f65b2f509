"""The rendered 3D Shapes: its geometry, its light, its bytes, and how close it is to the real."""

import colorsys
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from unweave.data import DATASETS, load_data, shapes3d, shapes3d_scene
from unweave.data.shapes3d import SPACE, hue
from unweave.data.shapes3d_scene import ROOM, SKY, empty_room, take_pictures
from unweave.data.streaming import is_resident
from unweave.types import UserError

CUBE, CYLINDER, SPHERE, CAPSULE = range(4)
ONE = torch.ones(1, dtype=torch.float64)


def images(*rows: tuple[int, ...]) -> np.ndarray:
    data = load_data("shapes3d-render")
    return data.images(data.index(np.array(rows)))


def test_hues_are_full_colours_in_fifths() -> None:
    for number in range(10):
        np.testing.assert_allclose(np.array(hue(number)) / 5,
                                   colorsys.hsv_to_rgb(number / 10, 1.0, 1.0), atol=1e-12)


def test_it_never_passes_for_the_published_set() -> None:
    assert load_data("shapes3d-render").name == "shapes3d-render"
    entry = DATASETS["shapes3d-render"]
    assert "stand-in" in entry.summary
    assert not entry.file
    assert SPACE.sizes == (10, 10, 10, 8, 4, 15)
    assert len(SPACE) == 480_000


def pixel_of(x: float, y: float, z: float) -> tuple[float, float]:
    """Column and row of a point, seen from orientation 0: a pinhole, written out again."""
    pitch = math.radians(ROOM.camera_pitch)
    ahead, above = y + ROOM.camera_radius, z - ROOM.camera_height
    depth = math.cos(pitch) * ahead + math.sin(pitch) * above
    up = -math.sin(pitch) * ahead + math.cos(pitch) * above
    scale = 32.0 / math.tan(math.radians(ROOM.field_of_view) / 2.0)
    return 32.0 + scale * x / depth, 32.0 - scale * up / depth


def test_things_are_where_a_pinhole_camera_sees_them() -> None:
    empty = empty_room(0.0)
    seen = take_pictures(CUBE, ONE, empty)
    thing = seen.shares[2].reshape(64, 64)
    bottom, top, back = (pixel_of(0.0, y, z)[1] for y, z in (
        (-ROOM.cube, 0.0), (-ROOM.cube, 2 * ROOM.cube), (ROOM.cube, 2 * ROOM.cube)))
    side, row = pixel_of(ROOM.cube, -ROOM.cube, 0.6 * ROOM.cube)
    assert thing[int(row)].sum() == pytest.approx(2 * (side - 32), abs=0.51)  # 4 rays a pixel
    assert thing[:, 32].sum() == pytest.approx(bottom - min(top, back), abs=0.26)
    np.testing.assert_array_equal(thing, thing.flip(1))
    sky = seen.sky.reshape(64, 64)
    assert sky[:, 5].sum() == pytest.approx(
        pixel_of(-2.0, ROOM.half_depth, ROOM.wall_height)[1], abs=0.26)
    floor, walls, thing, sky = seen.shares
    torch.testing.assert_close(floor + walls + thing + sky, torch.ones_like(sky))


def test_a_ball_is_as_large_as_its_cone() -> None:
    """A ball of radius r at distance d covers the cone with sine r / d."""
    for scale in (0.75, 1.25):
        r = ROOM.sphere * scale
        seen = take_pictures(SPHERE, ONE * scale, empty_room(17.0))
        d = math.hypot(ROOM.camera_radius, ROOM.camera_height - r)
        tangent = math.tan(math.asin(r / d)) * 32.0 / math.tan(
            math.radians(ROOM.field_of_view) / 2.0)
        area = math.pi * tangent ** 2  # a little more, as the ball is not at the centre
        assert area < float(seen.shares[2].sum()) < 1.06 * area


@pytest.mark.parametrize("shape", range(4))
def test_only_what_cannot_matter_is_left_out(shape: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scales, empty = torch.tensor([0.75, 1.25]), empty_room(-25.0, 32)
    quick = take_pictures(shape, scales, empty)
    monkeypatch.setattr(shapes3d_scene, "_may_meet",
                        lambda start, rays, *rest: torch.ones_like(rays.x, dtype=torch.bool))
    for one, two in zip(quick[:5], take_pictures(shape, scales, empty)[:5]):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_light_and_shadow() -> None:
    # Blue floor, red walls, green object: a channel for each.
    cube, capsule = (image.astype(int) for image in images(
        (7, 0, 3, 4, CUBE, 7), (7, 0, 3, 7, CAPSULE, 14)))
    row, column = (int(v) for v in reversed(pixel_of(0.0, -ROOM.cube, 0.6 * ROOM.cube)))
    front = ROOM.ambient + ROOM.headlight * math.cos(math.radians(ROOM.camera_pitch))
    np.testing.assert_allclose(cube[row, column], [51 * front, 255 * front, 0], atol=1)
    assert (cube[:3] == SKY).all()
    shadow = (ROOM.ambient + ROOM.headlight * math.sin(math.radians(-ROOM.camera_pitch)))
    dark = (capsule[..., 2] > 0) & (capsule[..., 2] < 128) & (capsule[..., 1] == 0)
    np.testing.assert_allclose(np.median(capsule[dark][:, 2]), 255 * ROOM.floor * shadow, atol=1)
    assert np.argwhere(dark)[:, 1].mean() > 34  # the lamp hangs on the left
    assert 80 < dark.sum() < 400


def test_an_image_is_its_picture_with_three_colours() -> None:
    row = (1, 6, 9, 2, CYLINDER, 12)
    seen = take_pictures(CYLINDER, torch.tensor([SPACE.values[3][2]]),
                         empty_room(SPACE.values[5][12]))
    expected = sum(light[0][:, None] * torch.tensor(colorsys.hsv_to_rgb(k / 10, 1.0, 1.0),
                                                    dtype=torch.float64)
                   for light, k in zip(seen[:3], row))
    expected += seen.sky[0][:, None] * torch.tensor(SKY) / 255 + seen.sheen[0][:, None]
    made = images(row)[0].reshape(-1, 3).astype(float)
    np.testing.assert_allclose(made, (255 * expected).clamp_max(255).numpy(), atol=1.0)


@pytest.mark.parametrize("size", [32, 64])
def test_machine_code_and_tensor_operations_make_the_same_images(size: int) -> None:
    """What a CPU runs and what other devices run, to the last bit; so are the bytes."""
    pixels = shapes3d.rendered_pixels(size)
    rng = np.random.Generator(np.random.Philox(3))
    index = torch.from_numpy(rng.integers(len(SPACE), size=(3, 40)))
    made = pixels.gather_on(torch.device("cpu"))(index)
    other = shapes3d._gather(pixels.table(), shapes3d._colours(), pixels.shape, index)
    assert made.shape == (3, 40, size, size, 3)
    assert made.is_contiguous()
    torch.testing.assert_close(made, other, rtol=0, atol=0)
    stored = pixels.rows(index.reshape(-1).numpy())
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(stored.reshape(made.shape), (made * 255).round().numpy())


def test_each_factor_changes_its_part() -> None:
    start = [2, 5, 8, 3, SPHERE, 7]
    first = images(tuple(start))[0].astype(int)
    for k, (rows, columns) in enumerate([(slice(60, 64), slice(0, 64)),
                                         (slice(24, 32), slice(0, 8)),
                                         (slice(40, 44), slice(30, 34))]):
        other = start.copy()
        other[k] = (other[k] + 3) % 10
        changed = (images(tuple(other))[0] != first).any(axis=-1)
        assert changed[rows, columns].all()
        assert not changed[:4].any()
    pairs = (images((2, 5, 8, s, SPHERE, 7), (2, 5, 0, s, SPHERE, 7)) for s in range(8))
    sizes = [(one != two).any(axis=-1).sum() for one, two in pairs]
    assert (np.diff(sizes) > 0).all()


def test_other_sizes() -> None:
    index = np.array([5, 400_007])
    whole = load_data("shapes3d-render,size=64").images(index).astype(float)
    small = load_data("shapes3d-render,size=32")
    assert small.image_shape == (32, 32, 3)
    halved = whole.reshape(2, 32, 2, 32, 2, 3).mean(axis=(2, 4))
    assert np.abs(small.images(index) - halved).mean() < 1.0
    with pytest.raises(UserError, match="choose 32, 64 or 128"):
        load_data("shapes3d-render,size=48")
    with pytest.raises(UserError, match="must divide 256"):
        empty_room(0.0, 48)


def test_the_table_is_small() -> None:
    pixels = load_data("shapes3d-render")._pixels
    assert pixels.num_bytes < 25e6
    assert is_resident(pixels, len(SPACE), torch.device("cpu"), None)


def test_errors_against_published_images(shared: Path) -> None:
    """Silhouettes within 1.5 % of pixels on each of the 53 labelled images, colours within 0.03."""
    path = Path(__file__).parents[2] / "bench" / "shapes3d.py"
    spec = importlib.util.spec_from_file_location("bench_shapes3d", path)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    found, rows = bench.labelled(shared / "data" / "shapes3d")
    wrong, colours = bench.silhouettes(found, rows), bench.colour_errors(found, rows)
    assert wrong.mean() < 0.0085
    assert wrong.max() < 0.015
    assert colours.mean() < 0.0135
    assert colours.max() < 0.025
