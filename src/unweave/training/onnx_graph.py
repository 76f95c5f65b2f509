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

`batch` is free. Opset 17, which onnxruntime and onnxruntime-web read on every backend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.nn import Conv, Dense, Norm
from unweave.nn.batch_norm import EPSILON
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


def decoder_onnx(run: Run, *, metadata: Mapping[str, str] | None = None) -> bytes:
    """The decoder as the bytes of an ONNX file; equal runs give equal bytes."""
    return decoder_model(run, metadata=metadata).SerializeToString(deterministic=True)


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
            shape = (shape[0] // 2, shape[1] // 2, graph.weight(layer).shape[-1])
        elif isinstance(layer, Dense):
            if len(shape) == 3:
                if not is_first:
                    h = graph.add("Transpose", [h], perm=[0, 2, 3, 1])
                h = graph.add("Flatten", [h], axis=1)
            h, shape = graph.dense(layer, h), (graph.weight(layer).shape[-1],)
        else:
            if len(shape) == 3 and is_first:
                h, is_first = graph.add("Transpose", [h], perm=[0, 3, 1, 2]), False
            h = graph.norm(layer, h)
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


def decoder_model(run: Run, *, metadata: Mapping[str, str] | None = None) -> ModelProto:
    """The decoder as an `onnx.ModelProto`: from `codes` to `images`."""
    graph, image_shape = _Graph(run, "decoder"), run.dataset.image_shape
    h = _embed(run, graph)
    layers = run.architecture.decoder
    doublings = sum(isinstance(layer, Conv) for layer in layers)
    first_conv = next((i for i, layer in enumerate(layers) if isinstance(layer, Conv)), None)
    dense_before = [i for i, layer in enumerate(layers) if isinstance(layer, Dense)
                    and (first_conv is None or i < first_conv)]
    for i, layer in enumerate(layers):
        if isinstance(layer, Conv):
            h = graph.conv(layer, h, "ConvTranspose")
        elif isinstance(layer, Norm):
            h = graph.norm(layer, h)
        else:
            h = graph.dense(layer, h)
            if doublings and i == dense_before[-1]:
                rows, columns = (side // 2**doublings for side in image_shape[:2])
                channels = graph.weight(layer).shape[-1] // (rows * columns)
                h = graph.reshape(h, (rows, columns, channels))
                h = graph.add("Transpose", [h], perm=[0, 3, 1, 2])
    if doublings:
        h = graph.add("Transpose", [h], perm=[0, 2, 3, 1])
    else:
        h = graph.reshape(h, image_shape)
    graph.add("Sigmoid", [h], ["images"])
    return graph.model([("codes", (len(run.num_values),))], [("images", image_shape)], metadata)


def _category_sizes(run: Run) -> tuple[int, ...]:
    return tuple(n for n in run.num_values if n)


def _embed(run: Run, graph: _Graph) -> str:
    """What the decoder's first layer sees: classes as one-hot vectors."""
    sizes, num_latents = _category_sizes(run), run.config.num_latents
    if not sizes:
        return "codes"
    columns = ["continuous", *(f"class_{j}" for j in range(len(sizes)))]
    lengths = graph.constant("code_sizes", np.array([num_latents] + [1] * len(sizes), np.int64))
    graph.add("Split", ["codes", lengths], columns, axis=1)
    parts = ["continuous"]
    for j, size in enumerate(sizes):
        values = graph.constant(f"values_{j}", np.arange(size, dtype=np.float32)[None])
        is_class = graph.add("Equal", [columns[1 + j], values])
        parts.append(graph.add("Cast", [is_class], to=1))
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

    def weight(self, layer: Dense | Conv | Norm, part: str = "weight") -> np.ndarray:
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
        padding = (layer.kernel - 2) // 2
        h = self.add(kind, inputs, kernel_shape=[layer.kernel] * 2, strides=[2, 2],
                     pads=[padding] * 4)
        return self._activate(h, layer.activation)

    def norm(self, layer: Norm, h: str) -> str:
        """Batch normalisation by the running statistics, channels second, and the activation."""
        inputs = [h, *(self._named(layer, part, self.weight(layer, part))
                       for part in ("weight", "bias", "mean", "var"))]
        h = self.add("BatchNormalization", inputs, epsilon=EPSILON)
        return self._activate(h, layer.activation)

    def _named(self, layer: Dense | Conv | Norm, part: str, value: np.ndarray) -> str:
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
