"""Kernels of the layers, for a stack of runs. `gpu.py` launches them.

All images are channels last, `[run, batch, height, width, channel]`, and a program works on one run
alone, in an order that does not depend on how many runs there are. What is unusual:

- For a pixel of the small image and one row of the kernel, the taps under it lie side by side in
  memory, all their channels included. So a convolution is an implicit matrix product whose inner
  axis is walked in runs of `SIZE * channels` contiguous numbers, not tap by tap. Where the big
  image has few channels all taps are one run.
- A transposed convolution is four convolutions, one for each parity of row and column of its
  output; tap 3 - 2a - p of parity p looks at the small pixel a - 1 + p away. With few output
  channels whole blocks of four by four output pixels are columns of one matrix product.
- The gradient of an activation is applied by the kernel that computes the gradient of the layer
  after it, from the activation's own output.
- NaN stays NaN: `where` instead of `maximum`, which would turn it into 0.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Activations by number: constants that a kernel is compiled for.
NONE, RELU, LEAKY, TANH = 0, 1, 2, 3

LEAK = tl.constexpr(0.2)


@triton.jit
def _tanh(v):
    small = tl.exp(-2.0 * tl.abs(v))
    size = (1.0 - small) / (1.0 + small)
    return tl.where(v < 0, -size, size)


@triton.jit
def _activate(v, ACTIVATION: tl.constexpr):
    if ACTIVATION == 1:
        v = tl.where(v < 0, 0.0, v)
    elif ACTIVATION == 2:
        v = tl.where(v < 0, v * LEAK, v)
    elif ACTIVATION == 3:
        v = _tanh(v)
    return v


@triton.jit
def _before(grad, y, ACTIVATION: tl.constexpr):
    """The gradient before an activation, from the one after it and the activation's output."""
    if ACTIVATION == 1:
        grad = tl.where(y <= 0, 0.0, grad)
    elif ACTIVATION == 2:
        grad = tl.where(y <= 0, grad * LEAK, grad)
    elif ACTIVATION == 3:
        grad = grad * (1.0 - y * y)
    return grad


@triton.jit
def halve(x, w, bias, y, seen, batch,
          H: tl.constexpr, W: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr,
          COLUMNS: tl.constexpr, SIZE: tl.constexpr, FLAT: tl.constexpr, CHUNK: tl.constexpr,
          HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, BEFORE: tl.constexpr,
          PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Big image `[batch, H, W, BIG]` to the small one, through w `[SIZE, SIZE, BIG, SMALL]`.

    FLAT: padded length of all taps and channels as one run, or 0 to go row by row in CHUNKs.
    BEFORE: the activation whose output `seen` is, if y is a gradient.
    """
    run = tl.program_id(1).to(tl.int64)
    PAD: tl.constexpr = (SIZE - 2) // 2
    OH: tl.constexpr = H // 2
    OW: tl.constexpr = W // 2
    pixels = batch * (OH * OW)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = p < pixels
    image = p // (OH * OW)
    oy = (p % (OH * OW)) // OW
    ox = p % OW
    x += run * batch * (H * W * BIG)
    w += run * (SIZE * SIZE * BIG * SMALL)
    column = tl.arange(0, COLUMNS)
    known = column < SMALL
    acc = tl.zeros((BLOCK, COLUMNS), tl.float32)
    if FLAT > 0:
        k = tl.arange(0, FLAT)
        tap = k // BIG
        iy = 2 * oy[:, None] + (tap // SIZE)[None, :] - PAD
        ix = 2 * ox[:, None] + (tap % SIZE)[None, :] - PAD
        real = k < SIZE * SIZE * BIG
        ok = (iy >= 0) & (iy < H) & (ix >= 0) & (ix < W) & inside[:, None] & real[None, :]
        xv = tl.load(x + ((image[:, None] * H + iy) * W + ix) * BIG + (k % BIG)[None, :], ok, 0.0)
        wv = tl.load(w + k[:, None] * SMALL + column[None, :], real[:, None] & known[None, :], 0.0)
        acc = tl.dot(xv.to(wv.dtype), wv, acc, input_precision=PRECISION)
    else:
        for ky in tl.static_range(SIZE):
            iy = 2 * oy + (ky - PAD)
            row = ((image * H + iy) * W + 2 * ox - PAD) * BIG
            rowok = inside & (iy >= 0) & (iy < H)
            for start in tl.static_range(0, SIZE * BIG, CHUNK):
                k = start + tl.arange(0, CHUNK)
                ok = rowok[:, None] & (k >= 0)[None, :]
                if PAD > 0:
                    ix = 2 * ox[:, None] - PAD + (k // BIG)[None, :]
                    ok = ok & (ix >= 0) & (ix < W)
                xv = tl.load(x + row[:, None] + k[None, :], ok, 0.0)
                wv = tl.load(w + (ky * SIZE * BIG + k)[:, None] * SMALL + column[None, :],
                             (k >= 0)[:, None] & known[None, :], 0.0)
                acc = tl.dot(xv.to(wv.dtype), wv, acc, input_precision=PRECISION)
    if HAS_BIAS:
        acc += tl.load(bias + run * SMALL + column, known, 0.0).to(tl.float32)[None, :]
    acc = _activate(acc, ACTIVATION)
    place = run * pixels * SMALL + p[:, None] * SMALL + column[None, :]
    ok = inside[:, None] & known[None, :]
    if BEFORE != 0:
        acc = _before(acc, tl.load(seen + place, ok, 0.0).to(tl.float32), BEFORE)
    tl.store(y + place, acc.to(y.dtype.element_ty), ok)


@triton.jit
def _phase(x, w, image, oy, ox, inside, py, px,
           H: tl.constexpr, W: tl.constexpr, SMALL: tl.constexpr, BIG: tl.constexpr,
           COLUMNS: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr,
           PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """The pixels (2 oy + py, 2 ox + px) of the big image."""
    TAPS: tl.constexpr = SIZE // 2
    SHIFT: tl.constexpr = TAPS - 1
    column = tl.arange(0, COLUMNS)
    known = column < BIG
    acc = tl.zeros((BLOCK, COLUMNS), tl.float32)
    for a in tl.static_range(TAPS):
        iy = oy + (py * SHIFT + a - SHIFT)
        ky = SIZE - 1 - 2 * a - py * SHIFT if SIZE == 4 else py
        left = ox + (px * SHIFT - SHIFT)
        row = ((image * H + iy) * W + left) * SMALL
        rowok = inside & (iy >= 0) & (iy < H)
        for start in tl.static_range(0, TAPS * SMALL, CHUNK):
            k = start + tl.arange(0, CHUNK)
            tap = k // SMALL
            ix = left[:, None] + tap[None, :]
            xv = tl.load(x + row[:, None] + k[None, :], rowok[:, None] & (ix >= 0) & (ix < W), 0.0)
            kx = SIZE - 1 - 2 * tap - px * SHIFT if SIZE == 4 else px + tap
            place = (ky * SIZE + kx) * (BIG * SMALL) + k % SMALL
            wv = tl.load(w + place[:, None] + column[None, :] * SMALL,
                         (k >= 0)[:, None] & known[None, :], 0.0)
            acc = tl.dot(xv.to(wv.dtype), wv, acc, input_precision=PRECISION)
    return acc


@triton.jit
def _store_phase(acc, bias, y, seen, run, image, oy, ox, inside, pixels, py, px,
                 H: tl.constexpr, W: tl.constexpr, BIG: tl.constexpr, COLUMNS: tl.constexpr,
                 HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, BEFORE: tl.constexpr):
    column = tl.arange(0, COLUMNS)
    known = column < BIG
    if HAS_BIAS:
        acc += tl.load(bias + run * BIG + column, known, 0.0).to(tl.float32)[None, :]
    acc = _activate(acc, ACTIVATION)
    place = ((image * (2 * H) + 2 * oy + py) * (2 * W) + 2 * ox + px) * BIG
    place = run * pixels * (4 * BIG) + place[:, None] + column[None, :]
    ok = inside[:, None] & known[None, :]
    if BEFORE != 0:
        acc = _before(acc, tl.load(seen + place, ok, 0.0).to(tl.float32), BEFORE)
    tl.store(y + place, acc.to(y.dtype.element_ty), ok)


@triton.jit
def double(x, w, bias, y, seen, batch,
           H: tl.constexpr, W: tl.constexpr, SMALL: tl.constexpr, BIG: tl.constexpr,
           COLUMNS: tl.constexpr, SIZE: tl.constexpr, CHUNK: tl.constexpr, PHASES: tl.constexpr,
           HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, BEFORE: tl.constexpr,
           PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Small image `[batch, H, W, SMALL]` to the big one, through w `[SIZE, SIZE, BIG, SMALL]`.

    PHASES: how many of the four parities a program makes, 1, 2 (those of one row) or 4. All are
    computed before the first is stored, so that the compiler may share what they load.
    """
    run = tl.program_id(1).to(tl.int64)
    pixels = batch * (H * W)
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = p < pixels
    image = p // (H * W)
    oy = (p % (H * W)) // W
    ox = p % W
    x += run * pixels * SMALL
    w += run * (SIZE * SIZE * BIG * SMALL)
    if PHASES == 4:
        a = _phase(x, w, image, oy, ox, inside, 0, 0, H, W, SMALL, BIG, COLUMNS, SIZE, CHUNK,
                   PRECISION, BLOCK)
        b = _phase(x, w, image, oy, ox, inside, 0, 1, H, W, SMALL, BIG, COLUMNS, SIZE, CHUNK,
                   PRECISION, BLOCK)
        c = _phase(x, w, image, oy, ox, inside, 1, 0, H, W, SMALL, BIG, COLUMNS, SIZE, CHUNK,
                   PRECISION, BLOCK)
        d = _phase(x, w, image, oy, ox, inside, 1, 1, H, W, SMALL, BIG, COLUMNS, SIZE, CHUNK,
                   PRECISION, BLOCK)
        _store_phase(a, bias, y, seen, run, image, oy, ox, inside, pixels, 0, 0, H, W, BIG,
                     COLUMNS, HAS_BIAS, ACTIVATION, BEFORE)
        _store_phase(b, bias, y, seen, run, image, oy, ox, inside, pixels, 0, 1, H, W, BIG,
                     COLUMNS, HAS_BIAS, ACTIVATION, BEFORE)
        _store_phase(c, bias, y, seen, run, image, oy, ox, inside, pixels, 1, 0, H, W, BIG,
                     COLUMNS, HAS_BIAS, ACTIVATION, BEFORE)
        _store_phase(d, bias, y, seen, run, image, oy, ox, inside, pixels, 1, 1, H, W, BIG,
                     COLUMNS, HAS_BIAS, ACTIVATION, BEFORE)
    elif PHASES == 2:
        py = tl.program_id(2)
        a = _phase(x, w, image, oy, ox, inside, py, 0, H, W, SMALL, BIG, COLUMNS, SIZE, CHUNK,
                   PRECISION, BLOCK)
        b = _phase(x, w, image, oy, ox, inside, py, 1, H, W, SMALL, BIG, COLUMNS, SIZE, CHUNK,
                   PRECISION, BLOCK)
        _store_phase(a, bias, y, seen, run, image, oy, ox, inside, pixels, py, 0, H, W, BIG,
                     COLUMNS, HAS_BIAS, ACTIVATION, BEFORE)
        _store_phase(b, bias, y, seen, run, image, oy, ox, inside, pixels, py, 1, H, W, BIG,
                     COLUMNS, HAS_BIAS, ACTIVATION, BEFORE)
    else:
        py = tl.program_id(2) // 2
        px = tl.program_id(2) % 2
        a = _phase(x, w, image, oy, ox, inside, py, px, H, W, SMALL, BIG, COLUMNS, SIZE, CHUNK,
                   PRECISION, BLOCK)
        _store_phase(a, bias, y, seen, run, image, oy, ox, inside, pixels, py, px, H, W, BIG,
                     COLUMNS, HAS_BIAS, ACTIVATION, BEFORE)


@triton.jit
def double_narrow(x, w, bias, y, seen, batch,
                  H: tl.constexpr, W: tl.constexpr, SMALL: tl.constexpr, BIG: tl.constexpr,
                  COLUMNS: tl.constexpr, HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
                  BEFORE: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """As `double` for 4x4 kernels, few channels of the big image, and even H and W.

    Two by two small pixels at a time: the four by four around them, 4 * SMALL contiguous numbers
    in each of four rows, make a block of four by four big pixels. Columns are (row, column,
    channel) of that block. The small image is read twice each way, not three or four times.
    """
    run = tl.program_id(1).to(tl.int64)
    pixels = batch * (H * W)
    HH: tl.constexpr = H // 2
    WW: tl.constexpr = W // 2
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = p < batch * (HH * WW)
    image = p // (HH * WW)
    oy = (p % (HH * WW)) // WW
    ox = p % WW
    x += run * pixels * SMALL
    w += run * (16 * BIG * SMALL)
    column = tl.arange(0, COLUMNS)
    known = column < 16 * BIG
    channel = column % BIG
    by = column // (4 * BIG)
    bx = (column // BIG) % 4
    k = tl.arange(0, 4 * SMALL)
    t = k // SMALL
    # Small pixel 2 q - 1 + t lies under big pixel 4 q + b at tap b + 3 - 2 t.
    kx = bx[None, :] + 3 - 2 * t[:, None]
    fits = (kx >= 0) & (kx < 4) & known[None, :]
    ix = 2 * ox[:, None] - 1 + t[None, :]
    okx = inside[:, None] & (ix >= 0) & (ix < W)
    acc = tl.zeros((BLOCK, COLUMNS), tl.float32)
    for r in tl.static_range(4):
        iy = 2 * oy + (r - 1)
        row = ((image * H + iy) * W + 2 * ox - 1) * SMALL
        xv = tl.load(x + row[:, None] + k[None, :], okx & ((iy >= 0) & (iy < H))[:, None], 0.0)
        ky = by + (3 - 2 * r)
        tap = ky[None, :] * 4 + kx
        wv = tl.load(w + (tap * BIG + channel[None, :]) * SMALL + (k % SMALL)[:, None],
                     fits & ((ky >= 0) & (ky < 4))[None, :], 0.0)
        acc = tl.dot(xv.to(wv.dtype), wv, acc, input_precision=PRECISION)
    if HAS_BIAS:
        acc += tl.load(bias + run * BIG + channel, known, 0.0).to(tl.float32)[None, :]
    acc = _activate(acc, ACTIVATION)
    place = ((image * (2 * H) + 4 * oy) * (2 * W) + 4 * ox) * BIG
    within = (by * (2 * W) + bx) * BIG + channel
    place = run * pixels * (4 * BIG) + place[:, None] + within[None, :]
    ok = inside[:, None] & known[None, :]
    if BEFORE != 0:
        acc = _before(acc, tl.load(seen + place, ok, 0.0).to(tl.float32), BEFORE)
    tl.store(y + place, acc.to(y.dtype.element_ty), ok)


# What a pipelined product reads, nothing else may read. Triton gives a load that has both kinds of
# readers too few places in shared memory, and on Hopper the product is still reading when numbers
# of a later turn arrive (tests/nn/test_pipelines.py). So sums over the big image are products with
# ones, in 16 equal columns, and the small image is loaded for its sums again.
@triton.jit
def _again(place, ok):
    """A load of its own: by its eviction policy it is not taken for the same as another."""
    return tl.load(place, ok, 0.0, eviction_policy="evict_last")


@triton.jit
def kernel_gradient(big, small, out, sums, batch,
                    H: tl.constexpr, W: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr,
                    SIZE: tl.constexpr, FLAT: tl.constexpr, CHUNK: tl.constexpr,
                    SPLITS: tl.constexpr, SIDE: tl.constexpr, LOW: tl.constexpr,
                    PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """Gradient of a kernel, `[split, SIZE, SIZE, BIG, SMALL]`, from both images; H, W: small.

    The pixels are cut into SPLITS, to be added up afterwards in order: no atomic sums, so that
    the same numbers give the same bits. SIDE: whose channel sums are made beside it, for the
    bias: 0 none, 1 the small image's `[split, SMALL]`, 2 the big one's
    `[split, SIZE, SIZE, BIG]`, of which the taps that cover every pixel once are to be added.
    LOW: compute in bfloat16.
    """
    part = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    PAD: tl.constexpr = (SIZE - 2) // 2
    RUN: tl.constexpr = SIZE * BIG
    LENGTH: tl.constexpr = FLAT if FLAT > 0 else CHUNK
    DTYPE: tl.constexpr = tl.bfloat16 if LOW else tl.float32
    pixels = batch * (H * W)
    big += run * pixels * (4 * BIG)
    small += run * pixels * SMALL
    column = tl.arange(0, SMALL)
    k = tl.arange(0, LENGTH)
    if FLAT > 0:
        tap = k // BIG
        ky = tap // SIZE
        kx = tap % SIZE
        real = k < SIZE * SIZE * BIG
    else:
        first = part * CHUNK
        ky = first // RUN + k * 0
        kx = (first % RUN + k) // BIG
        real = k >= 0
    acc = tl.zeros((LENGTH, SMALL), tl.float32)
    if SIDE == 1:
        total = tl.zeros((BLOCK, SMALL), tl.float32)
    if SIDE == 2:
        total = tl.zeros((LENGTH, 16), tl.float32)
        ones = tl.full((BLOCK, 16), 1.0, DTYPE)
    summed = tl.where(part == 0, pixels, 0)  # one part alone adds up the small image
    each = tl.cdiv(pixels, BLOCK * SPLITS)
    for i in range(each):
        p = (split * each + i) * BLOCK + tl.arange(0, BLOCK)
        inside = p < pixels
        image = p // (H * W)
        oy = (p % (H * W)) // W
        ox = p % W
        sv = tl.load(small + p[:, None] * SMALL + column[None, :], inside[:, None], 0.0)
        ix = 2 * ox[:, None] + kx[None, :] - PAD
        if FLAT > 0:
            iy = 2 * oy[:, None] + ky[None, :] - PAD
            ok = inside[:, None] & real[None, :] & (iy >= 0) & (iy < 2 * H)
            place = ((image[:, None] * (2 * H) + iy) * (2 * W) + ix) * BIG + (k % BIG)[None, :]
        else:
            iy1 = 2 * oy + (first // RUN) - PAD
            ok = (inside & (iy1 >= 0) & (iy1 < 2 * H))[:, None] & real[None, :]
            row = ((image * (2 * H) + iy1) * (2 * W) + 2 * ox - PAD) * BIG + first % RUN
            place = row[:, None] + k[None, :]
        if PAD > 0:
            ok = ok & (ix >= 0) & (ix < 2 * W)
        bv = tl.load(big + place, ok, 0.0)
        acc = tl.dot(tl.trans(bv.to(DTYPE)), sv.to(DTYPE), acc, input_precision=PRECISION)
        if SIDE == 1:
            if FLAT == 0:
                sv = _again(small + p[:, None] * SMALL + column[None, :], (p < summed)[:, None])
            total += sv.to(tl.float32)
        if SIDE == 2:
            total = tl.dot(tl.trans(bv.to(DTYPE)), ones, total, input_precision=PRECISION)
    offset = run * SPLITS + split
    place = offset * (SIZE * RUN) * SMALL + (part * LENGTH + k)[:, None] * SMALL + column[None, :]
    tl.store(out + place, acc.to(out.dtype.element_ty), real[:, None] & (column >= 0)[None, :])
    if SIDE == 1:  # noqa: SIM102 - a compile-time and a run-time condition
        if part == 0:
            tl.store(sums + offset * SMALL + column, tl.sum(total, 0))
    if SIDE == 2:
        tl.store(sums + offset * (SIZE * RUN) + part * LENGTH + k, tl.sum(total, 1) / 16, real)


@triton.jit
def kernel_gradient_rows(big, small, out, sums, batch,
                         H: tl.constexpr, W: tl.constexpr, BIG: tl.constexpr, SMALL: tl.constexpr,
                         CHUNK: tl.constexpr, SPLITS: tl.constexpr, SIDE: tl.constexpr,
                         LOW: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    """As `kernel_gradient` for 4x4 kernels, all four rows of the kernel in one program.

    Row 2q of the big image lies under kernel row 1 of the small pixels in row q and under kernel
    row 3 of those in row q - 1; row 2q + 1 under 2 of q and 0 of q + 1. So a big row is read once
    for two rows of the kernel. `sums` for SIDE 2 are `[split, 4, BIG]`, over both big rows.
    """
    part = tl.program_id(0)
    run = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    RUN: tl.constexpr = 4 * BIG
    DTYPE: tl.constexpr = tl.bfloat16 if LOW else tl.float32
    pixels = batch * (H * W)
    big += run * pixels * (4 * BIG)
    small += run * pixels * SMALL
    column = tl.arange(0, SMALL)
    k = part * CHUNK + tl.arange(0, CHUNK)
    kx = k // BIG
    acc0 = tl.zeros((CHUNK, SMALL), tl.float32)
    acc1 = tl.zeros((CHUNK, SMALL), tl.float32)
    acc2 = tl.zeros((CHUNK, SMALL), tl.float32)
    acc3 = tl.zeros((CHUNK, SMALL), tl.float32)
    if SIDE == 1:
        total = tl.zeros((BLOCK, SMALL), tl.float32)
    if SIDE == 2:
        total = tl.zeros((CHUNK, 16), tl.float32)
        other = tl.zeros((CHUNK, 16), tl.float32)
        ones = tl.full((BLOCK, 16), 1.0, DTYPE)
    summed = tl.where(part == 0, pixels, 0)  # one part alone adds up the small image
    each = tl.cdiv(pixels, BLOCK * SPLITS)
    for i in range(each):
        p = (split * each + i) * BLOCK + tl.arange(0, BLOCK)
        inside = p < pixels
        image = p // (H * W)
        oy = (p % (H * W)) // W
        ox = p % W
        ix = 2 * ox[:, None] - 1 + kx[None, :]
        ok = inside[:, None] & (ix >= 0) & (ix < 2 * W)
        row = ((image * (2 * H) + 2 * oy) * (2 * W) + 2 * ox - 1) * BIG
        even = tl.load(big + row[:, None] + k[None, :], ok, 0.0)
        odd = tl.load(big + (row + 2 * W * BIG)[:, None] + k[None, :], ok, 0.0)
        place = small + p[:, None] * SMALL + column[None, :]
        here = tl.load(place, inside[:, None], 0.0)
        above = tl.load(place - W * SMALL, (inside & (oy > 0))[:, None], 0.0)
        below = tl.load(place + W * SMALL, (inside & (oy < H - 1))[:, None], 0.0)
        even_t = tl.trans(even.to(DTYPE))
        odd_t = tl.trans(odd.to(DTYPE))
        acc0 = tl.dot(odd_t, below.to(DTYPE), acc0, input_precision=PRECISION)
        acc1 = tl.dot(even_t, here.to(DTYPE), acc1, input_precision=PRECISION)
        acc2 = tl.dot(odd_t, here.to(DTYPE), acc2, input_precision=PRECISION)
        acc3 = tl.dot(even_t, above.to(DTYPE), acc3, input_precision=PRECISION)
        if SIDE == 1:
            total += _again(place, (p < summed)[:, None]).to(tl.float32)
        if SIDE == 2:
            total = tl.dot(even_t, ones, total, input_precision=PRECISION)
            other = tl.dot(odd_t, ones, other, input_precision=PRECISION)
    offset = run * SPLITS + split
    place = out + offset * (4 * RUN * SMALL) + k[:, None] * SMALL + column[None, :]
    tl.store(place, acc0.to(out.dtype.element_ty))
    tl.store(place + RUN * SMALL, acc1.to(out.dtype.element_ty))
    tl.store(place + 2 * RUN * SMALL, acc2.to(out.dtype.element_ty))
    tl.store(place + 3 * RUN * SMALL, acc3.to(out.dtype.element_ty))
    if SIDE == 1:  # noqa: SIM102 - a compile-time and a run-time condition
        if part == 0:
            tl.store(sums + offset * SMALL + column, tl.sum(total, 0))
    if SIDE == 2:
        tl.store(sums + offset * RUN + k, tl.sum(total + other, 1) / 16)


@triton.jit
def product(a, b, bias, c, seen, rows, columns, inner,
            a_run, a_row, a_inner, b_run, b_inner, b_column,
            HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, BEFORE: tl.constexpr,
            LOW: tl.constexpr, PRECISION: tl.constexpr,
            ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr):
    """The product of every run, `[rows, inner]` by `[inner, columns]` in any layout; c is dense."""
    run = tl.program_id(1).to(tl.int64)
    across = tl.cdiv(columns, COLUMNS)
    row = (tl.program_id(0) // across) * ROWS + tl.arange(0, ROWS)
    column = (tl.program_id(0) % across) * COLUMNS + tl.arange(0, COLUMNS)
    a += run * a_run
    b += run * b_run
    DTYPE: tl.constexpr = tl.bfloat16 if LOW else tl.float32
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, inner, INNER):
        k = start + tl.arange(0, INNER)
        av = tl.load(a + row[:, None] * a_row + k[None, :] * a_inner,
                     (row < rows)[:, None] & (k < inner)[None, :], 0.0)
        bv = tl.load(b + k[:, None] * b_inner + column[None, :] * b_column,
                     (k < inner)[:, None] & (column < columns)[None, :], 0.0)
        acc = tl.dot(av.to(DTYPE), bv.to(DTYPE), acc, input_precision=PRECISION)
    if HAS_BIAS:
        acc += tl.load(bias + run * columns + column, column < columns, 0.0).to(
            tl.float32)[None, :]
    acc = _activate(acc, ACTIVATION)
    place = run * rows * columns + row[:, None] * columns + column[None, :]
    ok = (row < rows)[:, None] & (column < columns)[None, :]
    if BEFORE != 0:
        acc = _before(acc, tl.load(seen + place, ok, 0.0).to(tl.float32), BEFORE)
    tl.store(c + place, acc.to(c.dtype.element_ty), ok)


@triton.jit
def bernoulli_nats(logits, x, nats, size, BLOCK: tl.constexpr):
    """Sum over an image's pixels of log(1 + e^l) - x l; an image a program."""
    image = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        k = start + tl.arange(0, BLOCK)
        ok = k < size
        v = tl.load(logits + image * size + k, ok, 0.0).to(tl.float32)
        t = tl.load(x + image * size + k, ok, 0.0).to(tl.float32)
        soft = tl.where(v < 0, 0.0, v) + tl.log(1.0 + tl.exp(-tl.abs(v)))
        total += tl.where(ok, soft - t * v, 0.0)
    tl.store(nats + image, tl.sum(total, 0))


@triton.jit
def bernoulli_gradient(logits, x, weight, grad, size, BLOCK: tl.constexpr):
    """Gradient of the logits, weight (sigmoid(l) - x), with a weight an image."""
    image = tl.program_id(0).to(tl.int64)
    g = tl.load(weight + image)
    for start in range(0, size, BLOCK):
        k = start + tl.arange(0, BLOCK)
        ok = k < size
        v = tl.load(logits + image * size + k, ok, 0.0).to(tl.float32)
        t = tl.load(x + image * size + k, ok, 0.0).to(tl.float32)
        tl.store(grad + image * size + k, (g * (1.0 / (1.0 + tl.exp(-v)) - t)).to(
            grad.dtype.element_ty), ok)


@triton.jit
def sum_middle(x, y, middle, size, BLOCK: tl.constexpr):
    """`[run, middle, size]` to `[run, size]`, added up in order whatever the number of runs."""
    run = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x += run * middle * size
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(middle):
        total += tl.load(x + i * size + k, k < size, 0.0).to(tl.float32)
    tl.store(y + run * size + k, total.to(y.dtype.element_ty), k < size)


@triton.jit
def adam(p, g, first, second, copy, rates, root, size,
         BETA1: tl.constexpr, BETA2: tl.constexpr, EPS: tl.constexpr, HAS_COPY: tl.constexpr,
         BLOCK: tl.constexpr):
    """Adam's update of one tensor of every run. Kingma & Ba 2015, algorithm 1.

    `rates` are the runs' rates over the first bias correction, `root` the square root of the
    second; `copy` is the low-precision copy of the weights that the layers compute with.
    """
    run = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = k < size
    place = run * size + k
    gv = tl.load(g + place, ok, 0.0).to(tl.float32)
    m = tl.load(first + place, ok, 0.0)
    m += (gv - m) * (1.0 - BETA1)
    v = tl.load(second + place, ok, 0.0) * BETA2 + gv * gv * (1.0 - BETA2)
    rate = tl.load(rates + run)
    new = tl.load(p + place, ok, 0.0) - rate * m / (tl.sqrt(v) / tl.load(root) + EPS)
    tl.store(first + place, m, ok)
    tl.store(second + place, v, ok)
    tl.store(p + place, new, ok)
    if HAS_COPY:
        tl.store(copy + place, new.to(copy.dtype.element_ty), ok)
