"""No kernel copies numbers to where a product is still reading: compiled for Hopper, without a GPU.

An asynchronous product reads shared memory after its turn of a loop has ended. Where the next
turn's numbers go to the same place, gradients are wrong now and then, when the memory is busy:
tests of numbers on an idle GPU do not see it.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pipelines import unsafe_products

SAMPLE = """
    %x:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %z) -> (tensor<64x32xf32, #mma>) : i32 {
      %left = ttg.memdesc_index %all[%i] : !ttg.memdesc<PLACESx32x64xbf16, #s> -> !ttg.memdesc<32>
      %left_t = ttg.memdesc_trans %left {order = array<i32: 1, 0>} : !ttg.memdesc<32x64xbf16, #s>
      %right = ttg.memdesc_index %b[%i] : !ttg.memdesc<2x32x32xbf16, #s> -> !ttg.memdesc<32x32>
      %acc = ttng.warp_group_dot LEFT, %right, %a {isAsync = true} : TYPE * !ttg.memdesc<32x32>
      %w:2 = ttng.warp_group_dot_wait %acc, %right {pendings = PENDING : i32} : tensor<64x32xf32>
      scf.yield %w#0 : tensor<64x32xf32, #mma>
"""


def sample(places=2, left="%left_t", kind="!ttg.memdesc<64x32xbf16>", pending=1):
    text = SAMPLE.replace("PLACES", str(places)).replace("LEFT", left)
    return text.replace("TYPE", kind).replace("PENDING", str(pending))


def test_what_is_unsafe():
    assert unsafe_products(sample(), 2) == (1, [])
    assert unsafe_products(sample(places=1), 2) == (1, ["%left_t has 1 of 2 places"])
    assert unsafe_products(sample(), 3)[1] == ["%left_t has 2 of 3 places",
                                               "%right has 2 of 3 places"]
    assert unsafe_products(sample(places=1, pending=0), 2) == (0, [])  # waits for its own
    assert unsafe_products(sample(left="%r", kind="tensor<64x32xbf16, #dot>"), 2) == (
        1, ["%r is in registers"])


@pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")
def test_no_kernel_is_unsafe(tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    env |= {"TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(Path(__file__).parent / "pipelines.py")], env=env,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pending"] > 20
    assert found["unsafe"] == []
