"""Notebooks: sliders that move the latents of a run. `pip install 'unweave[notebook]'`.

Runs, data sets, scores, studies and stores show themselves in a notebook without any of this.

    from unweave.notebook import traversal
    traversal(unweave.load("runs/ID"))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unweave.markup import png
from unweave.report.sheets import latent_facts
from unweave.training import Run
from unweave.types import UserError

_ZOOM = 4


def traversal(run: Run, *, index: int = 0, span: float = 3.0, num: int = 2000,
              zoom: int = _ZOOM) -> Any:
    """A panel with a slider for each latent, the latents with the largest KL first.

    The picture on the left is an image of the run's data set, that on the right what the decoder
    makes of the sliders; `index` chooses the image, and `start` puts the sliders at its code. A
    categorical latent has a list of its classes. KLs come from `num` images.
    """
    return Traversal(run, index=index, span=span, num=num, zoom=zoom).panel


class Traversal:
    """The parts of the panel: `image`, `start`, `sliders` by latent, and the two pictures."""

    def __init__(self, run: Run, *, index: int, span: float, num: int, zoom: int) -> None:
        try:
            import ipywidgets as widgets
        except ImportError:
            raise UserError("traversals with sliders need ipywidgets: pip install "
                            "'unweave[notebook]'") from None
        if run.status == "diverged":
            raise UserError(f"{run.run_id} diverged: it has nothing to traverse")
        if not 0 <= index < len(run.dataset):
            raise UserError(f"index={index} must be from 0 to {len(run.dataset) - 1}, the images "
                            f"of {run.dataset.name}")
        if not span > 0:
            raise UserError(f"span={span} must be above 0")
        self.run, self._moving = run, False
        measure = "MI" if run.is_generator else "KL"
        kl, shared = latent_facts(run, num=num)
        names = (run.dataset.space.names if run.dataset.labels is None
                 else run.dataset.labels.names)
        self.sliders: dict[int, Any] = {}
        for j in (int(j) for j in np.argsort(-kl)):
            classes = run.num_values[j]
            wide = {"layout": widgets.Layout(width="26em"), "continuous_update": True,
                    "tooltip": _said(kl[j], shared[j], names, measure)}
            slider = (widgets.IntSlider(min=0, max=classes - 1, description=f"c{j}", **wide)
                      if classes else widgets.FloatSlider(
                          min=-span, max=span, step=span / 50, description=f"z{j}", **wide))
            slider.observe(self._moved, names="value")
            self.sliders[j] = slider
        self.image = widgets.BoundedIntText(min=0, max=len(run.dataset) - 1, value=index,
                                            description="image")
        self.start = widgets.Button(description="start", tooltip="sliders to the image's code")
        height, width, _ = run.dataset.image_shape
        shape = {"format": "png", "width": width * zoom, "height": height * zoom}
        self.original, self.decoded = widgets.Image(**shape), widgets.Image(**shape)
        self.image.observe(lambda _: self.reset(), names="value")
        self.start.on_click(lambda _: self.reset())
        remarks = widgets.VBox([widgets.Label(_said(kl[j], shared[j], names, measure))
                                for j in self.sliders])
        self.panel = widgets.VBox([
            widgets.HBox([self.image, self.start]), widgets.HBox([self.original, self.decoded]),
            widgets.HBox([widgets.VBox(list(self.sliders.values())), remarks])])
        self.panel.traversal = self  # keeps the observers' owner alive with the panel
        self.reset()

    @property
    def codes(self) -> np.ndarray:
        """The code that the sliders stand for, `[1, code]`."""
        return np.array([[self.sliders[j].value for j in sorted(self.sliders)]], np.float32)

    def reset(self) -> None:
        """Put the sliders at the code of the chosen image, as far as they reach."""
        image = self.run.dataset.images([self.image.value])
        self.original.value = png(image[0])
        code = self.run.encode(image)[0]
        self._moving = True  # one decoding at the end, not one for each slider
        try:
            for j, slider in self.sliders.items():
                slider.value = type(slider.value)(np.clip(code[j], slider.min, slider.max))
        finally:
            self._moving = False
        self._decode()

    def _moved(self, _change: Any) -> None:
        if not self._moving:
            self._decode()

    def _decode(self) -> None:
        image = self.run.decode(self.codes)[0]
        self.decoded.value = png(np.round(np.clip(image, 0.0, 1.0) * 255.0).astype(np.uint8))


def _said(kl: float, shared: np.ndarray, names: tuple[str, ...], measure: str) -> str:
    """A latent's KL (of a generator, MI), and the factor that it shares most with."""
    if kl < 0.1:
        return f"{measure} {kl:.2f}, unused"
    best = int(shared.argmax()) if len(shared) else -1
    if best < 0 or shared[best] < 0.05:
        return f"{measure} {kl:.2f}"
    return f"{measure} {kl:.2f}, {names[best]} ({shared[best]:.0%} of its information)"
