"""Compiles the kernels as they are launched, for a Hopper GPU, and looks for unsafe products.

    python tests/nn/pipelines.py

Needs Triton with its NVIDIA part, but no GPU. Prints JSON: how many products are launched and not
waited for in the same turn of a loop (`pending`), and which of those may read what is being written
(`unsafe`). A process of its own, as Triton reads on import whether to interpret.
"""

from __future__ import annotations

import json
import re
from typing import Any

# small height, channels of the big and the small image, kernel size
SHAPES = [(32, 3, 32, 4), (16, 32, 32, 4), (8, 32, 64, 4), (8, 64, 128, 4), (8, 32, 64, 2)]


def unsafe_products(text: str, num_stages: int) -> tuple[int, list[str]]:
    """Products of a module (TTGIR) that outlive their turn of a loop, and those that may not.

    Such a product must read buffers with a place for each stage: the numbers of the next turns are
    copied there meanwhile. Registers on its left side are written anew in the next turn, too.
    """
    made = {m[1]: (m[2], m[3]) for m in re.finditer(r"(%\w+)(?::\d+)? = (\S+) (.*)", text)}

    def places(value: str) -> int | None:
        """How many turns' numbers a buffer holds; None where it is not filled in a loop."""
        while value in made:
            operation, rest = made[value]
            if operation == "ttg.memdesc_index":
                return int(re.search(r"memdesc<(\d+)x", rest)[1])
            if operation != "ttg.memdesc_trans":
                return None
            value = re.match(r"%\w+", rest)[0]
        return None

    pending, found = 0, []
    for loop in re.findall(r"scf\.for.*?scf\.yield", text, re.DOTALL):
        waits = [int(n) for n in re.findall(r"warp_group_dot_wait.*?pendings = (\d+)", loop)]
        if not waits or min(waits) == 0:
            continue
        for dot in re.finditer(r"warp_group_dot (%\w+), (%\w+),.*?isAsync = true.*?: (\S+)", loop):
            pending += 1
            if dot[3].startswith("tensor<"):
                found.append(f"{dot[1]} is in registers")
            found += [f"{value} has {places(value)} of {num_stages} places"
                      for value in dot.groups()[:2]
                      if (places(value) or num_stages) < num_stages]
    return pending, found


class Recorder:
    """Stands for the module of kernels: keeps what they are launched with."""

    def __init__(self, kernels: Any) -> None:
        self.kernels, self.launches = kernels, []

    def __getattr__(self, name: str) -> Any:
        def launch(*args: Any, **given: Any) -> None:
            self.launches.append((getattr(self.kernels, name), args, given))

        return _Grid(launch)


class _Grid:
    def __init__(self, launch: Any) -> None:
        self.launch = launch

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return self.launch


def launches() -> list[tuple[Any, tuple, dict]]:
    """As in training: every gradient of a kernel, and some products of dense layers."""
    import torch

    from unweave.nn import gpu, kernels

    recorder = Recorder(kernels)
    gpu._kernels = lambda: recorder

    def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device="meta")

    for height, big, small, size in SHAPES:
        images = (empty(2, 64, 2 * height, 2 * height, big),
                  empty(2, 64, height, height, small))
        weight = empty(2, size, size, big, small)
        for side in ("big", "small"):
            gpu.kernel_gradient(*images, weight, side)
    gpu.halve(images[0], weight, None)
    gpu.double(images[1], weight, None)
    for dtype in (torch.bfloat16, torch.float32):
        gpu.product(empty(2, 64, 1024, dtype=dtype), empty(2, 1024, 256, dtype=dtype))
        gpu.product(empty(2, 64, 1024, dtype=torch.float32), empty(2, 1024, 256, dtype=dtype))
        gpu.product(empty(2, 1024, 64, dtype=dtype).mT, empty(2, 1024, 20, dtype=dtype))
    return [launch for launch in recorder.launches if launch[0].__name__ != "sum_middle"]


def compiled(kernel: Any, args: tuple, given: dict[str, Any]) -> Any:
    """What a launch with these arguments compiles to on a Hopper GPU."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    options = {k: given[k] for k in ("num_warps", "num_stages")}
    values = dict(zip(kernel.arg_names, args)) | {k: v for k, v in given.items()
                                                  if k not in options}
    types, constants, divisible = {}, {}, {}
    for i, name in enumerate(kernel.arg_names):
        value = values[name]
        if isinstance(value, torch.Tensor):
            types[name] = "*bf16" if value.dtype == torch.bfloat16 else "*fp32"
        elif type(value) is int and name not in given and value != 1:
            types[name] = "i32"
        else:
            types[name], constants[name] = "constexpr", value
        if types[name] != "constexpr" and (types[name] != "i32" or value % 16 == 0):
            divisible[i,] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=types, constexprs=constants, attrs=divisible)
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def main() -> None:
    total, unsafe = 0, []
    for kernel, args, given in launches():
        text = compiled(kernel, args, given).asm["ttgir"]
        pending, found = unsafe_products(text, given["num_stages"])
        total += pending
        settings = {k: v for k, v in given.items() if k in ("H", "BIG", "SMALL", "SIDE", "LOW")}
        unsafe += [f"{kernel.__name__} {settings}: {line}" for line in found]
    print(json.dumps({"pending": total, "unsafe": unsafe}))


if __name__ == "__main__":
    main()
