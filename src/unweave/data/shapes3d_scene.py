"""The room of 3D Shapes, ray cast: what each pixel shows of floor, walls, object and sky, how lit.

Hues do not change what a ray hits or how bright it is, so a picture is taken without them: for
each pixel the brightness-weighted share of every material, the share of the sky, and the sheen of
the object. Rays are tensors of one axis or two, in double precision, on any device.

The light is that of a fixed-function renderer: ambient, a headlight that shines along the camera's
axis, and a spot lamp that hangs above the room and points straight down, the only one that casts
shadows. Objects have a sheen, a constant added where the lamp reaches them.

The numbers of `Room` were fitted to public pictures of the data set: Gauss-Newton steps on the
difference of the colours, then random steps on silhouettes too, over the 53 labelled pictures and
every second of the 50 unlabelled ones, with the rows that those repeat taken into account.
`bench/shapes3d.py --fit` goes on from them in the same way; they were found by forerunners of it,
from several starts and with other models on the way.
docs/data/shapes3d.md has the errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unweave.types import Float, UserError

SHAPES = ("cube", "cylinder", "sphere", "capsule")
NUM_RAYS = 256
"""Rays along each side of a picture; a pixel of 64 x 64 is the mean of 4 x 4 of them."""

_FAR = 1e9
_TINY = 1e-12


@dataclass(frozen=True)
class Room:
    """Sizes in the units of the room, angles in degrees. z points up, the back wall is at +y."""

    camera_radius: float = 2.896
    camera_height: float = 0.8414
    camera_pitch: float = -0.8151
    field_of_view: float = 46.0743
    half_width: float = 3.5432
    half_depth: float = 3.6045
    wall_height: float = 1.9818
    cube: float = 0.3733
    """Half an edge at scale 1, as all sizes of objects."""
    cylinder_radius: float = 0.394
    cylinder_half: float = 0.4042
    """Half the height."""
    sphere: float = 0.4497
    capsule_radius: float = 0.3417
    capsule_half: float = 0.3543
    """Half the height of the part between the two balls."""
    ambient: float = 0.3537
    headlight: float = 0.597
    lamp: float = 1.0181
    lamp_x: float = -1.5236
    lamp_y: float = 0.5597
    lamp_z: float = 7.6315
    floor: float = 0.959
    """Brightness of the floor's material beside that of the object; so for the walls."""
    walls: float = 0.9699
    sheen: float = 0.0998


ROOM = Room()
SKY = (153, 226, 249)
_SPOT = 10  # how narrow the lamp's beam is: the cosine to this power


class Picture(NamedTuple):
    """What the pixels of some scenes show, `[scene, pixel]` each, row after row."""

    floor: Tensor
    """Share of the pixel times brightness, which may exceed 1; so for walls and object."""
    walls: Tensor
    thing: Tensor
    sky: Tensor
    """Share of the pixel."""
    sheen: Tensor
    """Share of the pixel times sheen: white that is added."""
    shares: tuple[Tensor, Tensor, Tensor, Tensor]
    """Shares of floor, walls, object and sky, without light."""


class _Vector(NamedTuple):
    x: Tensor
    y: Tensor
    z: Tensor

    def dot(self, other: _Vector) -> Tensor:
        return self.x * other.x + self.y * other.y + self.z * other.z

    def towards(self, way: _Vector, length: Tensor) -> _Vector:
        return _Vector(self.x + length * way.x, self.y + length * way.y, self.z + length * way.z)

    def take(self, which: Tensor) -> _Vector:
        return _Vector(self.x[which], self.y[which], self.z[which])


class EmptyRoom(NamedTuple):
    """The room seen from one orientation. Rays are `[pixel x ray]`: those of a pixel in a row."""

    room: Room
    per_pixel: int
    eye: _Vector
    axis: _Vector
    """Where the camera looks."""
    rays: _Vector
    length: Tensor
    """How far each ray goes."""
    floor: Tensor
    """Whether it ends on the floor; so for the walls."""
    walls: Tensor
    on_floor: Tensor
    """Brightness there without the lamp, 0 elsewhere."""
    on_walls: Tensor


def empty_room(orientation: float, side: int = 64, room: Room = ROOM,
               device: torch.device | str = "cpu") -> EmptyRoom:
    """Look into the room from an orientation in degrees, in `side` x `side` pixels."""
    if side < 1 or NUM_RAYS % side:
        raise UserError(f"pictures of {side} x {side} pixels are not taken: the side must divide "
                        f"{NUM_RAYS}, such as 32, 64 or 128")
    eye, rays, axis = _camera(room, orientation, side, torch.device(device))
    length, floor, walls = _room(room, eye, rays)
    at = eye.towards(rays, torch.where(walls, length, 0.0))
    on_floor = room.floor * (room.ambient - room.headlight * min(float(axis.z), 0.0)) * floor
    on_walls = room.walls * _wall_light(room, at, axis) * walls
    return EmptyRoom(room, (NUM_RAYS // side) ** 2, eye, axis, rays, length, floor, walls,
                     on_floor.to(torch.float64), on_walls)


def take_pictures(shape: int, scales: Float[Tensor, " scene"], empty: EmptyRoom) -> Picture:
    """An object of one shape at several scales in a room."""
    room, eye, rays = empty.room, empty.eye, empty.rays
    scales = scales.to(torch.float64)
    radius, half, centre = (size[:, None] for size in _sizes(room, shape, scales))
    at = eye.towards(rays, torch.where(empty.floor, empty.length, 0.0))
    up = _Vector(torch.zeros_like(at.z), torch.zeros_like(at.z), torch.ones_like(at.z))
    lit, way, distance = _lamp(room, at, up)
    lit = room.floor * lit * empty.floor

    def pooled(x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], -1, empty.per_pixel).mean(dim=-1)

    parts = [pooled(x.to(torch.float64)).repeat(len(scales), 1) for x in (
        empty.on_floor + lit, empty.on_walls, torch.zeros_like(lit), ~(empty.floor | empty.walls),
        torch.zeros_like(lit), empty.floor, empty.walls, torch.zeros_like(lit))]

    # The room is the same for all scales, except in pixels that may show the object or its shadow.
    reach = float(radius.max()) * (math.sqrt(2.0) if shape == 0 else 1.0) + 1e-6
    height = float((centre + half + radius).max())
    near = (_may_meet(eye, rays, reach, height, empty.length)
            | empty.floor & _may_meet(at, way, reach, height, distance))
    pixels = torch.nonzero(near.reshape(-1, empty.per_pixel).any(dim=1))[:, 0]
    some = (pixels[:, None] * empty.per_pixel
            + torch.arange(empty.per_pixel, device=pixels.device)).reshape(-1)
    seen, normal = _object(shape, radius, half, centre, eye, rays.take(some))
    thing = seen < empty.length[some]
    hidden, _ = _object(shape, radius, half, centre, at.take(some), way.take(some))
    on_thing, _, _ = _lamp(room, eye.towards(rays.take(some), torch.where(thing, seen, 0.0)),
                           normal)
    bare = (~thing).to(torch.float64)
    floor = empty.on_floor[some] + lit[some] * (hidden >= distance[some])
    dull = room.ambient + room.headlight * _facing(normal, empty.axis)
    sky = (~(empty.floor | empty.walls)[some]).to(torch.float64)
    for part, value in zip(parts, (
            bare * floor, bare * empty.on_walls[some], thing * (dull + on_thing), bare * sky,
            room.sheen * (thing & (on_thing > 0)), bare * empty.floor[some],
            bare * empty.walls[some], thing)):
        part[:, pixels] = pooled(value.to(torch.float64))
    return Picture(*parts[:5], (*parts[5:], parts[3]))


def _may_meet(start: _Vector, rays: _Vector, reach: float, height: float,
              length: Tensor) -> Tensor:
    """Whether rays come close enough to the upright axis, not too high, before they end."""
    flat = torch.hypot(rays.x, rays.y).clamp_min(_TINY)
    middle = -(start.x * rays.x + start.y * rays.y) / flat ** 2
    beside = (start.x * rays.y - start.y * rays.x).abs() / flat
    first = (middle - reach / flat).clamp_min(0.0)
    last = torch.minimum(middle + reach / flat, length)
    lowest = start.z + torch.minimum(first * rays.z, last * rays.z)
    return (beside <= reach) & (first <= last) & (lowest <= height)


def _camera(room: Room, orientation: float, side: int, device: torch.device,
            ) -> tuple[_Vector, _Vector, _Vector]:
    """Where the camera is, its rays, and its axis; it looks across the middle of the room."""
    turn, pitch = math.radians(orientation), math.radians(room.camera_pitch)
    tangent = math.tan(math.radians(room.field_of_view) / 2.0)
    at = (torch.arange(NUM_RAYS, dtype=torch.float64, device=device) + 0.5) / NUM_RAYS * 2.0 - 1.0
    at = (at * tangent).reshape(side, -1)
    grid = (side, side, NUM_RAYS // side, NUM_RAYS // side)
    right = at[None, :, None, :].expand(grid).reshape(-1)
    above = -at[:, None, :, None].expand(grid).reshape(-1)
    sin, cos = math.sin(turn), math.cos(turn)
    ahead = math.cos(pitch) - math.sin(pitch) * above
    up = math.sin(pitch) + math.cos(pitch) * above
    long = torch.sqrt(right * right + above * above + 1.0)
    rays = _Vector((-sin * ahead + cos * right) / long, (cos * ahead + sin * right) / long,
                   up / long)
    eye = (room.camera_radius * sin, -room.camera_radius * cos, room.camera_height)
    axis = (-sin * math.cos(pitch), cos * math.cos(pitch), math.sin(pitch))
    return (_Vector(*torch.tensor(eye, dtype=torch.float64, device=device)), rays,
            _Vector(*torch.tensor(axis, dtype=torch.float64, device=device)))


def _room(room: Room, eye: _Vector, rays: _Vector) -> tuple[Tensor, Tensor, Tensor]:
    """How far each ray goes in the empty room, whether it ends on the floor, whether on a wall."""
    to_side = (torch.sign(rays.x) * room.half_width - eye.x) / _not_zero(rays.x)
    to_back = torch.where(rays.y > 0, (room.half_depth - eye.y) / _not_zero(rays.y), _FAR)
    to_wall = torch.minimum(to_side, to_back)
    to_floor = torch.where(rays.z < 0, -eye.z / _not_zero(rays.z), _FAR)
    floor = to_floor < to_wall
    walls = ~floor & (eye.z + to_wall * rays.z <= room.wall_height)
    length = torch.where(floor, to_floor, torch.where(walls, to_wall, _FAR))
    return length, floor, walls


def _wall_light(room: Room, at: _Vector, axis: _Vector) -> Tensor:
    """Brightness on the walls: which one a point is on is told from where it is."""
    zero, one = torch.zeros_like(at.x), torch.ones_like(at.x)
    back = at.y >= room.half_depth - 1e-6
    normal = _Vector(torch.where(back, zero, -torch.sign(at.x)), torch.where(back, -one, zero),
                     zero)
    return room.ambient + room.headlight * _facing(normal, axis) + _lamp(room, at, normal)[0]


def _facing(normal: _Vector, axis: _Vector) -> Tensor:
    return (-normal.dot(axis)).clamp_min(0.0)


def _lamp(room: Room, at: _Vector, normal: _Vector) -> tuple[Tensor, _Vector, Tensor]:
    """What the lamp gives to points that nothing hides; the way there, and how far it is."""
    x, y, z = room.lamp_x - at.x, room.lamp_y - at.y, room.lamp_z - at.z
    distance = torch.sqrt(x * x + y * y + z * z)
    way = _Vector(x / distance, y / distance, z / distance)
    beam = way.z.clamp_min(0.0).pow(_SPOT)
    return room.lamp * beam * normal.dot(way).clamp_min(0.0), way, distance


def _sizes(room: Room, shape: int, scales: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Radius, half the height of the straight part, and height of the centre above the floor."""
    if shape == 0:
        return room.cube * scales, room.cube * scales * 0, room.cube * scales
    if shape == 1:
        half = room.cylinder_half * scales
        return room.cylinder_radius * scales, half, half
    if shape == 2:
        return room.sphere * scales, room.sphere * scales * 0, room.sphere * scales
    half = room.capsule_half * scales
    return room.capsule_radius * scales, half, room.capsule_radius * scales + half


def _object(shape: int, radius: Tensor, half: Tensor, centre: Tensor, eye: _Vector,
            rays: _Vector) -> tuple[Tensor, _Vector]:
    """How far rays from outside go until they meet the object (else `_FAR`), and its normal."""
    eye = _Vector(eye.x, eye.y, eye.z - centre)
    if shape == 0:
        return _cube(radius, eye, rays)
    if shape == 2:
        return _ball(radius, eye, rays)
    length, normal = _side(radius, half, eye, rays)
    if shape == 1:
        return _closer((length, normal), _caps(radius, half, eye, rays))
    for end in (half, -half):
        found = _ball(radius, _Vector(eye.x, eye.y, eye.z - end), rays)
        length, normal = _closer((length, normal), found)
    return length, normal


def _cube(radius: Tensor, eye: _Vector, rays: _Vector) -> tuple[Tensor, _Vector]:
    enter, leave = [], []
    for start, way in zip(eye, rays):
        one, two = (-radius - start) / _not_zero(way), (radius - start) / _not_zero(way)
        enter.append(torch.minimum(one, two))
        leave.append(torch.maximum(one, two))
    first = torch.maximum(torch.maximum(enter[0], enter[1]), enter[2])
    last = torch.minimum(torch.minimum(leave[0], leave[1]), leave[2])
    length = torch.where((first < last) & (first > 0), first, _FAR)
    normal = _Vector(*(-torch.sign(way) * (e == first) for e, way in zip(enter, rays)))
    return length, normal


def _ball(radius: Tensor, eye: _Vector, rays: _Vector) -> tuple[Tensor, _Vector]:
    along = eye.dot(rays)
    inside = along * along - eye.dot(eye) + radius * radius
    length = -along - inside.clamp_min(0.0).sqrt()
    length = torch.where((inside > 0) & (length > 0), length, _FAR)
    return length, _Vector(*(v / radius for v in eye.towards(rays, length)))


def _side(radius: Tensor, half: Tensor, eye: _Vector, rays: _Vector) -> tuple[Tensor, _Vector]:
    """The round side of an upright cylinder."""
    a = (rays.x * rays.x + rays.y * rays.y).clamp_min(_TINY)
    b = eye.x * rays.x + eye.y * rays.y
    inside = b * b - a * (eye.x * eye.x + eye.y * eye.y - radius * radius)
    length = (-b - inside.clamp_min(0.0).sqrt()) / a
    ends = (eye.z + length * rays.z).abs() <= half
    length = torch.where((inside > 0) & (length > 0) & ends, length, _FAR)
    at = eye.towards(rays, length)
    return length, _Vector(at.x / radius, at.y / radius, torch.zeros_like(at.x))


def _caps(radius: Tensor, half: Tensor, eye: _Vector, rays: _Vector) -> tuple[Tensor, _Vector]:
    """The flat end of an upright cylinder that faces the eye."""
    face = torch.sign(eye.z) * torch.ones_like(rays.z)
    length = (face * half - eye.z) / _not_zero(rays.z)
    at = eye.towards(rays, length)
    met = (eye.z.abs() > half) & (length > 0) & (at.x * at.x + at.y * at.y <= radius * radius)
    zero = torch.zeros_like(length)
    return torch.where(met, length, _FAR), _Vector(zero, zero, face + zero)


def _closer(one: tuple[Tensor, _Vector], two: tuple[Tensor, _Vector]) -> tuple[Tensor, _Vector]:
    first = one[0] <= two[0]
    return (torch.minimum(one[0], two[0]),
            _Vector(*(torch.where(first, a, b) for a, b in zip(one[1], two[1]))))


def _not_zero(x: Tensor) -> Tensor:
    return torch.where(x.abs() < _TINY, _TINY, x)
