"""A run as two ONNX graphs: images to codes, codes to images.

Written node by node from the architecture's layer records, so that nothing is traced and the graph
says what the network is. The inference-time network alone: running statistics of batch
normalisation are constants, nothing is drawn. Weights are float32 whatever the run's precision.

    encoder   images [batch, height, width, channel], floats in [0, 1]
              -> codes [batch, code], as `Run.encode` gives them
              -> mu, logvar [batch, latent] of the continuous latents
              -> probabilities_0, ... [batch, class], one for each categorical latent
    decoder   codes [batch, code], as `Run.encode` gives them
              -> images [batch, height, width, channel], floats in [0, 1]

A generator's decoder has its noise inside, the one draw that `Run.decode` uses for all images. With
`noise=True` it asks for it: a second input `noise` [batch, noise].

`batch` is free. Opset 17, which onnxruntime and onnxruntime-web read on every backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.nn import Conv, Dense, LayerNorm, Norm
from unweave.nn.batch_norm import EPSILON
from unweave.nn.blueprint import Layer
from unweave.nn.cpu import LEAK
from unweave.training.run import Run
from unweave.types import UserError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

OPSET, IR_VERSION = 17, 8
_ACTIVATIONS = {"relu": "Relu", "leaky_relu": "LeakyRelu", "tanh": "Tanh"}


def encoder_onnx(run: Run, *, metadata: Mapping[str, str] | None = None) -> bytes:
    """The encoder as the bytes of an ONNX file; equal runs give equal bytes."""
    return encoder_model(run, metadata=metadata).SerializeToString(deterministic=True)


def decoder_onnx(run: Run, *, noise: bool = False,
                 metadata: Mapping[str, str] | None = None) -> bytes:
    """The decoder as the bytes of an ONNX file; equal runs give equal bytes."""
    return decoder_model(run, noise=noise, metadata=metadata).SerializeToString(deterministic=True)


def encoder_model(run: Run, *, metadata: Mapping[str, str] | None = None) -> ModelProto:
    """The encoder as an `onnx.ModelProto`: from `images` to `codes`, `mu`, `logvar` and more."""
    graph = _Graph(run, "encoder")
    h, shape = "images", run.dataset.image_shape
    is_first = True  # channels last until the first convolution, second from there on
    for layer in run.architecture.encoder:
        if isinstance(layer, Conv):
            if is_first:
                h = graph.add("Transpose", [h], perm=[0, 3, 1, 2])
            h, is_first = graph.conv(layer, h, "Conv"), False
            shape = (shape[0] // layer.stride, shape[1] // layer.stride,
                     graph.weight(layer).shape[-1])
        elif isinstance(layer, Dense):
            if len(shape) == 3:
                if not is_first:
                    h = graph.add("Transpose", [h], perm=[0, 2, 3, 1])
                h = graph.add("Flatten", [h], axis=1)
            h, shape = graph.dense(layer, h), (graph.weight(layer).shape[-1],)
        else:
            if len(shape) == 3 and is_first:
                h, is_first = graph.add("Transpose", [h], perm=[0, 3, 1, 2]), False
            h = graph.norm(layer, h) if isinstance(layer, Norm) else graph.layer_norm(layer, h)
    sizes, num_latents = _category_sizes(run), run.config.num_latents
    outputs = [("mu", num_latents), ("logvar", num_latents)]
    outputs += [(f"probabilities_{j}", size) for j, size in enumerate(sizes)]
    logits = [f"logits_{j}" for j in range(len(sizes))]
    lengths = graph.constant("head_sizes", np.array([n for _, n in outputs], np.int64))
    graph.add("Split", [h, lengths], ["mu", "logvar", *logits], axis=1)
    classes = []
    for (name, _), category in zip(outputs[2:], logits):
        graph.add("Softmax", [category], [name], axis=1)
        best = graph.add("ArgMax", [category], axis=1, keepdims=1)
        classes.append(graph.add("Cast", [best], to=1))  # 1 is float32
    if classes:
        graph.add("Concat", ["mu", *classes], ["codes"], axis=1)
    else:
        graph.add("Identity", ["mu"], ["codes"])
    return graph.model(
        [("images", run.dataset.image_shape)],
        [(name, (n,)) for name, n in [("codes", num_latents + len(sizes)), *outputs]], metadata)


def decoder_model(run: Run, *, noise: bool = False,
                  metadata: Mapping[str, str] | None = None) -> ModelProto:
    """The decoder as an `onnx.ModelProto`: from `codes`, and `noise` if wanted, to `images`."""
    graph, image_shape = _Graph(run, "decoder"), run.dataset.image_shape
    num_noise = run.generator_noise().shape[1] if run.is_generator else 0
    if noise and not num_noise:
        raise UserError(f"{run.config.method} decodes codes alone: it takes no noise")
    h = _embed(run, graph, noise)
    layers = run.architecture.decoder
    doublings = sum(isinstance(layer, Conv) and layer.stride == 2 for layer in layers)
    has_convs = any(isinstance(layer, Conv) for layer in layers)
    first_conv = next((i for i, layer in enumerate(layers) if isinstance(layer, Conv)), None)
    dense_before = [i for i, layer in enumerate(layers) if isinstance(layer, Dense)
                    and (first_conv is None or i < first_conv)]
    for i, layer in enumerate(layers):
        if isinstance(layer, Conv):
            h = graph.conv(layer, h, "ConvTranspose" if layer.stride == 2 else "Conv")
        elif isinstance(layer, Norm):
            h = graph.norm(layer, h)
        elif isinstance(layer, LayerNorm):
            h = graph.layer_norm(layer, h)
        else:
            h = graph.dense(layer, h)
            if has_convs and i == dense_before[-1]:
                rows, columns = (side // 2**doublings for side in image_shape[:2])
                channels = graph.weight(layer).shape[-1] // (rows * columns)
                h = graph.reshape(h, (rows, columns, channels))
                h = graph.add("Transpose", [h], perm=[0, 3, 1, 2])
    if has_convs:
        h = graph.add("Transpose", [h], perm=[0, 2, 3, 1])
    else:
        h = graph.reshape(h, image_shape)
    graph.add("Sigmoid", [h], ["images"])
    inputs = [("codes", (len(run.num_values),)), *([("noise", (num_noise,))] if noise else [])]
    return graph.model(inputs, [("images", image_shape)], metadata)


def _category_sizes(run: Run) -> tuple[int, ...]:
    return tuple(n for n in run.num_values if n)


def _embed(run: Run, graph: _Graph, noise: bool) -> str:
    """What the decoder's first layer sees: classes as one-hot vectors, then a generator's noise."""
    sizes, num_latents = _category_sizes(run), run.config.num_latents
    if not sizes and not run.is_generator:
        return "codes"
    columns = ["continuous", *(f"class_{j}" for j in range(len(sizes)))]
    lengths = graph.constant("code_sizes", np.array([num_latents] + [1] * len(sizes), np.int64))
    graph.add("Split", ["codes", lengths], columns, axis=1)
    parts = ["continuous"]
    for j, size in enumerate(sizes):
        values = graph.constant(f"values_{j}", np.arange(size, dtype=np.float32)[None])
        is_class = graph.add("Equal", [columns[1 + j], values])
        parts.append(graph.add("Cast", [is_class], to=1))
    if noise:
        parts.append("noise")
    elif run.is_generator:
        fixed = run.generator_noise()
        width = graph.constant("num_noise", np.array(fixed.shape[1:], np.int64))
        batch = graph.add("Shape", ["codes"], start=0, end=1)
        shape = graph.add("Concat", [batch, width], axis=0)
        parts.append(graph.add("Expand", [graph.constant("generator_noise", fixed), shape]))
    return graph.add("Concat", parts, axis=1)


class _Graph:
    """Nodes and constants of one side of a run, while they are being written down."""

    def __init__(self, run: Run, side: str) -> None:
        try:
            import onnx
        except ImportError:
            raise UserError("ONNX graphs need the package onnx: "
                            "pip install 'unweave[onnx]'") from None
        self._onnx, self._run, self._side = onnx, run, side
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, TensorProto] = {}

    def weight(self, layer: Layer, part: str = "weight") -> np.ndarray:
        """A weight or running statistic of a layer, as stored."""
        tensor = self._run.params[f"{self._side}.{layer.name}.{part}"]
        return tensor[0].detach().float().cpu().numpy()

    def add(self, kind: str, inputs: Sequence[str], outputs: Sequence[str] | None = None,
            **attributes: object) -> str:
        """A node; the name of its first output comes back."""
        names = list(outputs or [f"{kind.lower()}_{len(self._nodes)}"])
        self._nodes.append(self._onnx.helper.make_node(
            kind, list(inputs), names, name=f"node_{len(self._nodes)}_{kind}", **attributes))
        return names[0]

    def constant(self, name: str, value: np.ndarray) -> str:
        """A constant; its name comes back."""
        self._constants[name] = self._onnx.numpy_helper.from_array(
            np.ascontiguousarray(value), name)
        return name

    def reshape(self, h: str, shape: tuple[int, ...]) -> str:
        """All but the batch axis becomes `shape`."""
        name = self.constant(f"shape_{len(self._nodes)}", np.array([-1, *shape], np.int64))
        return self.add("Reshape", [h, name])

    def dense(self, layer: Dense, h: str) -> str:
        """`h @ weight + bias`, and the activation."""
        inputs = [h, self._named(layer, "weight", self.weight(layer))]
        if layer.bias:
            inputs.append(self._named(layer, "bias", self.weight(layer, "bias")))
        return self._activate(self.add("Gemm", inputs), layer.activation)

    def conv(self, layer: Conv, h: str, kind: str) -> str:
        """A convolution or transposed one of images with channels second, and the activation.

        Kernels are stored row, column, big side, small side for both; ONNX has the input's
        channels second for one and first for the other, which is the same permutation.
        """
        kernel = self.weight(layer).transpose(3, 2, 0, 1)
        inputs = [h, self._named(layer, "weight", kernel)]
        if layer.bias:
            inputs.append(self._named(layer, "bias", self.weight(layer, "bias")))
        pads = [(layer.kernel - layer.stride) // 2] * 4
        if layer.stride == 1:  # 'same': an even kernel needs one more after than before
            pads = [(layer.kernel - 1) // 2] * 2 + [layer.kernel // 2] * 2
        h = self.add(kind, inputs, kernel_shape=[layer.kernel] * 2, strides=[layer.stride] * 2,
                     pads=pads)
        return self._activate(h, layer.activation)

    def norm(self, layer: Norm, h: str) -> str:
        """Batch normalisation by the running statistics, channels second, and the activation."""
        inputs = [h, *(self._named(layer, part, self.weight(layer, part))
                       for part in ("weight", "bias", "mean", "var"))]
        h = self.add("BatchNormalization", inputs, epsilon=EPSILON)
        return self._activate(h, layer.activation)

    def layer_norm(self, layer: LayerNorm, h: str) -> str:
        """Layer normalisation of all that a sample has, channels second, and the activation."""
        parts = [self.weight(layer, part) for part in ("weight", "bias")]
        if parts[0].ndim == 3:
            parts = [part.transpose(2, 0, 1) for part in parts]
        inputs = [h, *(self._named(layer, name, part)
                       for name, part in zip(("weight", "bias"), parts))]
        h = self.add("LayerNormalization", inputs, axis=1, epsilon=EPSILON)
        return self._activate(h, layer.activation)

    def _named(self, layer: Layer, part: str, value: np.ndarray) -> str:
        return self.constant(f"{self._side}.{layer.name}.{part}", value)

    def _activate(self, h: str, activation: str) -> str:
        if activation == "none":
            return h
        more = {"alpha": LEAK} if activation == "leaky_relu" else {}
        return self.add(_ACTIVATIONS[activation], [h], **more)

    def model(self, inputs: Sequence[tuple[str, tuple[int, ...]]],
              outputs: Sequence[tuple[str, tuple[int, ...]]],
              metadata: Mapping[str, str] | None) -> ModelProto:
        """The finished model, checked; `metadata` is added to what it says about the run."""
        helper, run = self._onnx.helper, self._run
        ends = [[helper.make_tensor_value_info(name, 1, ["batch", *shape])
                 for name, shape in side] for side in (inputs, outputs)]
        graph = helper.make_graph(self._nodes, f"{run.run_id}.{self._side}", *ends,
                                  initializer=list(self._constants.values()))
        model = helper.make_model(graph, producer_name="unweave", ir_version=IR_VERSION,
                                  opset_imports=[helper.make_opsetid("", OPSET)])
        helper.set_model_props(model, {"run_id": run.run_id, "side": self._side,
                                       **(metadata or {})})
        self._onnx.checker.check_model(model, full_check=True)
        return model
