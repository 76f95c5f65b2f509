"""A run finds its data set again by the name that it stored, options included."""

import numpy as np

import unweave


def test_a_run_on_data_with_options_loads_again(tmp_path):
    (run,) = unweave.train("vae", "dsprites,leave_out=shape:heart", steps=1, batch_size=2,
                           num_latents=2, architecture="conv64-small", device="cpu", out=tmp_path,
                           progress=False)
    again = unweave.load(run.folder, device="cpu")
    assert again.dataset.name == "dsprites,leave_out=shape:heart"
    assert again.dataset.num_training == len(again.dataset) * 2 // 3
    images = again.dataset.images([0, 1])
    np.testing.assert_array_equal(again.encode(images), run.encode(images))
