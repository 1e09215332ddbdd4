"""ONNX: the graph of a model, written node by node.

Input ``features`` is float32 (rows, n_features), output ``scores`` float32 (rows,). A net over lists takes the rows of
one query at a time, any number of them. Trees are one TreeEnsembleRegressor
with float32 thresholds, the largest not above ours, so that float32 rows take the same path as in LightGBM; NaN goes
where ``nodes_missing_value_tracks_true`` says. A split by category is a chain of equalities that share one left side.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from gainful.data.rows import Array
from gainful.errors import MissingExtraError
from gainful.exports.describe import Described, Mixture
from gainful.exports.floats import below
from gainful.exports.formats import Settings, Written, constant_trees, kind_of, note_on_words, refuse, setting
from gainful.rankers.ensembles import Ensemble, Tree
from gainful.rankers.scorers import LAYER_EPSILON, Block, Inputs, Kernel, Linear, ListNet, Net

# Old enough for the runtimes of recent years; we use nothing newer.
IR_VERSION, OPSET, ML_OPSET = 8, 17, 3
ML = "ai.onnx.ml"


def write(described: Described, settings: Settings) -> Written:
    onnx = _onnx()
    form = described.form
    parts = described.parts
    if any(isinstance(part, Kernel) for part in parts):
        raise refuse(described, "onnx", f"it is {kind_of(form)}", f"use {setting('to', 'json')}")
    graph = Graph(onnx)
    if isinstance(form, Mixture):
        _mixture(graph, form)
    else:
        _add(graph, form)
    content = graph.model(described, settings).SerializeToString()
    categorical = any(isinstance(part, Ensemble) and part.categorical for part in parts)
    notes: tuple[str, ...] = ("categories must be whole numbers",) if categorical else ()
    notes += note_on_words(described, "the metadata of the file")
    if described.sees_lists:
        notes += ("scores depend on the whole list: run the graph once per query, with all of its documents as rows",)
    return Written({"": content}, lambda files, X: [scores(files[""], X)], notes=notes)


def _onnx() -> Any:
    try:
        import onnx
        import onnxruntime  # noqa: F401  the check needs it
    except ImportError as error:
        raise MissingExtraError.of("export to ONNX", "onnx and onnxruntime", "export") from error
    return onnx


class Graph:
    """A sequence of nodes; ``last`` is the output of the newest."""

    def __init__(self, onnx: Any):
        self.onnx, self.last = onnx, "features"
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *constants: Array, domain: str = "", also: str = "", **attributes: Any) -> None:
        """Add a node whose inputs are the last output, constants, and possibly an earlier output."""
        place = len(self.nodes)
        names = [f"c{place}_{i}" for i in range(len(constants))]
        for name, value in zip(names, constants, strict=True):
            self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        node = self.onnx.helper.make_node(
            operator,
            [self.last, *names, *([also] if also else [])],
            [f"v{place}"],
            f"n{place}",
            domain=domain,
            **attributes,
        )
        self.nodes.append(node)
        self.last = f"v{place}"

    def standardise(self, inputs: Inputs | None) -> None:
        if inputs is not None and inputs.unit is not None:
            self._log_scale(inputs, inputs.unit)
        elif inputs is not None and not inputs.idle:
            self.add("Sub", inputs.shift.astype(np.float32))
            self.add("Div", inputs.scale.astype(np.float32))

    def _log_scale(self, inputs: Inputs, unit: Array) -> None:
        """In double precision: the logarithm of 1 plus a small number loses its digits."""
        types = self.onnx.TensorProto
        self.add("Cast", to=types.DOUBLE)
        given = self.last
        self.add("Abs")
        self.add("Div", unit)
        self.add("Add", np.ones(1))
        self.add("Log")
        size, self.last = self.last, given
        self.add("Sign")
        self.add("Mul", also=size)
        self.add("Sub", inputs.shift)
        self.add("Div", inputs.scale)
        self.add("Cast", to=types.FLOAT)

    def model(self, described: Described, settings: Settings) -> Any:
        from gainful import __version__

        self.add("Reshape", np.array([-1], dtype=np.int64))
        self.nodes[-1].output[0] = "scores"
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            settings.name,
            [helper.make_tensor_value_info("features", kind, ["rows", len(described.features)])],
            [helper.make_tensor_value_info("scores", kind, ["rows"])],
            self.constants,
        )
        model = helper.make_model(
            graph,
            producer_name="gainful",
            producer_version=__version__,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)],
            ir_version=IR_VERSION,
            doc_string=f"{described.title}: one score per row, higher is better",
        )
        props = {"ranker": described.title, "features": json.dumps(described.features)}
        props |= {"categories": json.dumps(described.words)} if described.words else {}
        helper.set_model_props(model, props)
        self.onnx.checker.check_model(model)
        return model


def _add(graph: Graph, form: Any) -> None:
    if isinstance(form, Linear):
        _linear(graph, form)
    elif isinstance(form, Net):
        _net(graph, form)
    elif isinstance(form, ListNet):
        _list_net(graph, form)
    else:
        _ensemble(graph, form)


def _mixture(graph: Graph, mixture: Mixture) -> None:
    total = ""
    for part, factor in zip(mixture.parts, mixture.factors, strict=True):
        graph.last = "features"
        _add(graph, part)
        graph.add("Reshape", np.array([-1], dtype=np.int64))
        graph.add("Mul", np.array([factor], dtype=np.float32))
        if total:
            graph.add("Add", also=total)
        total = graph.last


# -- linear models and nets --------------------------------------------------------------------------------------------


def _linear(graph: Graph, linear: Linear) -> None:
    graph.standardise(linear.inputs)
    graph.add("MatMul", linear.weights.astype(np.float32)[:, None])
    graph.add("Add", np.array([linear.intercept], dtype=np.float32))


def _net(graph: Graph, net: Net) -> None:
    graph.standardise(net.inputs)
    for place, (W, bias) in enumerate(net.layers):
        if place > 0:
            _activate(graph, net.activation)
        graph.add("Gemm", W.astype(np.float32), bias.astype(np.float32))


def _activate(graph: Graph, name: str) -> None:
    if name != "silu":
        graph.add(name.capitalize())
        return
    before = graph.last
    graph.add("Sigmoid")
    graph.add("Mul", also=before)


def _list_net(graph: Graph, net: ListNet) -> None:
    """Tensors are (models, rows, units)."""
    graph.standardise(net.inputs)
    for W, bias in net.layers:
        _layer(graph, W, bias)
        _activate(graph, net.activation)
    z = graph.last
    for block in net.blocks:
        _attention_block(graph, block, net.heads)
    graph.add("Mul", also=z)
    graph.add("Add", also=z)
    _layer(graph, *net.output)
    graph.add("ReduceMean", axes=[0], keepdims=0)


def _layer(graph: Graph, W: Array, bias: Array) -> None:
    graph.add("MatMul", W.astype(np.float32))
    graph.add("Add", bias[:, None].astype(np.float32))


def _attention_block(graph: Graph, block: Block, heads: int) -> None:
    models, width, _ = block.projection.shape
    before, size = graph.last, width // heads
    parts = []
    for place, order in enumerate(((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))):  # queries, keys across, values
        own, factor = slice(place * width, (place + 1) * width), size**-0.5 if place == 0 else 1.0
        graph.last = before
        _layer(graph, factor * block.projection[:, :, own], factor * block.bias[:, own])
        graph.add("Reshape", np.array([models, -1, heads, size]))
        graph.add("Transpose", perm=order)
        parts.append(graph.last)
    graph.last = parts[0]
    graph.add("MatMul", also=parts[1])
    graph.add("Softmax", axis=-1)
    graph.add("MatMul", also=parts[2])
    graph.add("Transpose", perm=(0, 2, 1, 3))
    graph.add("Reshape", np.array([models, -1, width]))
    _layer(graph, block.output, block.output_bias)
    graph.add("Add", also=before)
    graph.add("LayerNormalization", np.ones(width, dtype=np.float32), axis=-1, epsilon=LAYER_EPSILON)
    graph.add("Mul", block.gain[:, None].astype(np.float32))
    graph.add("Add", block.shift[:, None].astype(np.float32))


# -- trees -------------------------------------------------------------------------------------------------------------


def _ensemble(graph: Graph, ensemble: Ensemble) -> None:
    trees = ensemble.trees or constant_trees(ensemble.n_features).trees
    columns: dict[str, Any] = {name: [] for name in (*NODE, *LEAF)}
    for place, tree in enumerate(trees):
        _tree(columns, place, place % ensemble.n_outputs, tree)
    graph.add(
        "TreeEnsembleRegressor",
        domain=ML,
        n_targets=ensemble.n_outputs,
        aggregate_function="SUM",
        post_transform="NONE",
        **columns,
    )
    link = ensemble.link
    if link is None:
        return
    relevance = link.relevance.astype(np.float64)
    if link.kind == "softmax":
        graph.add("Softmax", axis=1)
        graph.add("MatMul", relevance.astype(np.float32)[:, None])
        return
    graph.add("Add", link.start.astype(np.float32))
    graph.add("Sigmoid")
    graph.add("MatMul", np.diff(relevance).astype(np.float32)[:, None])
    graph.add("Add", relevance[:1].astype(np.float32))


NODE = (
    "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
    "nodes_falsenodeids", "nodes_missing_value_tracks_true",
)  # fmt: skip
LEAF = ("target_treeids", "target_nodeids", "target_ids", "target_weights")


def _tree(columns: dict[str, list[Any]], number: int, target: int, tree: Tree) -> None:
    """The nodes of a tree: splits first, then leaves, then the further equalities of splits by category."""
    n_splits, values = tree.n_splits, below(tree.threshold)
    after = n_splits + len(tree.leaves)

    def add(node: int, feature: int, mode: str, value: float, true: int, false: int, missing: bool) -> None:
        for name, item in zip(NODE, (number, node, feature, mode, value, true, false, int(missing)), strict=True):
            columns[name].append(item)

    extra: list[tuple[int, int, str, float, int, int, bool]] = []
    for split in range(n_splits):
        left, right = (int(c) if c >= 0 else n_splits - int(c) - 1 for c in (tree.left[split], tree.right[split]))
        feature = int(tree.feature[split])
        if split not in tree.categories:
            add(split, feature, "BRANCH_LEQ", float(values[split]), left, right, bool(tree.nan_left[split]))
            continue
        inside = tree.categories[split]
        chain = [split, *range(after, after + len(inside) - 1)]
        after += len(inside) - 1
        for link, category in enumerate(inside):
            otherwise = chain[link + 1] if link + 1 < len(chain) else right
            missing = bool(tree.nan_left[split])
            node = (chain[link], feature, "BRANCH_EQ", float(category), left, otherwise, missing)
            extra.append(node) if link else add(*node)
    for leaf, weight in enumerate(tree.leaves):
        node_id = n_splits + leaf
        add(node_id, 0, "LEAF", 0.0, 0, 0, False)
        for name, item in zip(LEAF, (number, node_id, target, float(np.float32(weight))), strict=True):
            columns[name].append(item)
    for node in extra:
        add(*node)


# -- scoring by ONNX Runtime -------------------------------------------------------------------------------------------


def scores(content: bytes, X: Array) -> Array:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["scores"], {"features": np.ascontiguousarray(X, dtype=np.float32)})[0])
