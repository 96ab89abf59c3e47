"""From file to file, with verification: what onnxruntime refuses is mended, and never written as verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bnfold.errors import BnfoldError, VerificationFailed
from bnfold.pipeline import job
from bnfold.settings import Options, OutputOptions, VerifyOptions
from fuzz import phases, promises, runtime, watch
from fuzz.case import Case, Outcome
from fuzz.parts import graphs, nodes, pick
from fuzz.upgrades import DELIVER

Damage = Callable[[onnx.ModelProto, np.random.Generator], None]
OTHER = {TensorProto.FLOAT: TensorProto.FLOAT16, TensorProto.DOUBLE: TensorProto.FLOAT}


def retype_scales(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Store the scales of a Resize as float16 or double, if that changes no number; put one at the end if need be."""
    dtype = pick(rng, (np.float16, np.float64))
    if not any(_scales(model)):
        info = next((info for info in model.graph.output if info.type.tensor_type.elem_type == TensorProto.FLOAT), None)
        rank = len(info.type.tensor_type.shape.dim) if info is not None else 0
        if info is None or rank not in (2, 3, 4):
            return
        scales = np.ones(rank, np.float32)
        scales[-1] = pick(rng, (2.0, 1.5, 3.0))
        model.graph.initializer.append(numpy_helper.from_array(scales, "scales of the end"))
        _append(model, info, helper.make_node("Resize", [info.name, "", "scales of the end"], [""]))
    tensor = pick(rng, [tensor for tensor in _scales(model) if tensor.data_type == TensorProto.FLOAT])
    array = numpy_helper.to_array(tensor) if tensor is not None else np.zeros(0)
    if tensor is not None and np.array_equal(array.astype(dtype).astype(np.float32), array):
        tensor.CopyFrom(numpy_helper.from_array(array.astype(dtype), tensor.name))


def _scales(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    read = {node.input[2] for node in nodes(model) if node.op_type == "Resize" and len(node.input) > 2}
    others = {name for node in nodes(model) if node.op_type != "Resize" for name in node.input}
    seen = {info.name for info in (*model.graph.input, *model.graph.output)}
    return [tensor for tensor in model.graph.initializer if tensor.name in read - others - seen]


def _append(model: onnx.ModelProto, info: onnx.ValueInfoProto, node: onnx.NodeProto) -> None:
    """Append a node whose output takes the place of an output."""
    node.output[0] = f"{info.name} at the end"
    model.graph.node.append(node)
    info.name = node.output[0]
    info.type.tensor_type.ClearField("shape")


def return_outer(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Let a branch return a value of the main graph: that of an If there is, or of one that is put at the end."""
    info = pick(rng, model.graph.output)
    kind = info.type.tensor_type.elem_type
    other = helper.make_graph(
        [helper.make_node("Neg", [info.name], ["negated"])],
        "other",
        [],
        [helper.make_tensor_value_info("negated", kind, None)],
    )
    outer = helper.make_graph([], "outer", [], [helper.make_tensor_value_info(info.name, kind, None)])
    branches = (outer, other) if rng.random() < 0.5 else (other, outer)
    if kind not in OTHER:
        return
    if rng.random() < 0.5:
        model.graph.initializer.append(numpy_helper.from_array(np.array(rng.random() < 0.5), "condition"))
    else:
        model.graph.input.append(helper.make_tensor_value_info("condition", TensorProto.BOOL, []))
    _append(model, info, helper.make_node("If", ["condition"], [""], then_branch=branches[0], else_branch=branches[1]))


def declare_another(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Declare another type for an output or an inner value whose type follows by inference."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:], bare.graph.output[:]
    inferred = onnx.shape_inference.infer_shapes(bare).graph.value_info
    known = {info.name: info for info in inferred if info.type.tensor_type.elem_type in OTHER}
    ends = {info.name: info for info in model.graph.output if info.name in known}
    info = pick(rng, [*ends.values(), *(info for name, info in known.items() if name not in ends)])
    if info is None:
        return
    if info.name not in {held.name for held in model.graph.output}:
        kept = [held for held in model.graph.value_info if held.name != info.name]
        del model.graph.value_info[:]
        model.graph.value_info.extend([*kept, info])
        info = model.graph.value_info[-1]
    info.type.tensor_type.elem_type = OTHER[info.type.tensor_type.elem_type]


DAMAGES: tuple[Damage, ...] = (retype_scales, return_outer, declare_another)


def sound_and_damaged(model: onnx.ModelProto, seed: int) -> tuple[onnx.ModelProto, onnx.ModelProto, str]:
    """Return the model as a runtime takes it, the damaged one, and the damage; both have the nodes that this needs."""
    if seed < 0:
        return model, model, "nothing"
    damage = DAMAGES[seed % len(DAMAGES)]
    damaged = onnx.ModelProto.FromString(model.SerializeToString())
    damage(damaged, np.random.default_rng(seed))
    return _repaired(damaged, model), damaged, damage.__name__


def _repaired(damaged: onnx.ModelProto, model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the damaged model without the damage: plain by hand, for bnfold's own repairs are on trial."""
    sound = onnx.ModelProto()
    sound.CopyFrom(damaged)
    for tensor in _scales(sound):
        array = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for graph in graphs(sound)[1:]:
        if graph.name == "outer" and not graph.node:
            graph.node.append(helper.make_node("Identity", [graph.output[0].name], ["its own"]))
            graph.output[0].name = "its own"
    if [*damaged.graph.node] == [*model.graph.node]:
        del sound.graph.value_info[:]
        sound.graph.value_info.extend(model.graph.value_info)
        del sound.graph.output[:]
        sound.graph.output.extend(model.graph.output)
    return sound


def judge(case: Case, folder: Path, how: Options) -> Outcome:
    """Rewrite, verify and write the damaged model; onnxruntime computes with the result what the sound one says."""
    model = onnx.ModelProto.FromString(case.model)
    sound, damaged, damage = sound_and_damaged(model, case.settings[DELIVER])
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(sound, folder / "sound.onnx")
    onnx.save(damaged, folder / "model.onnx")
    result = folder / "result.onnx"
    with phases.theirs("onnxruntime"):
        is_taken = runtime.opened(folder / "model.onnx") is not None
        _, runs = runtime.compare(folder / "sound.onnx", folder / "sound.onnx")
    if not runs or not promises.declares_truly(sound):  # operators may not read what is declared without elements
        return Outcome()
    try:
        outcome = job.process(folder / "model.onnx", OutputOptions(path=result), how, VerifyOptions())
    except VerificationFailed as failure:
        return Outcome(f"not verified: after {damage}: {failure}")
    except BnfoldError as refusal:
        return Outcome(behaviour=watch.refusal(refusal), refused=True)
    except Exception as crash:  # noqa: BLE001 - whatever it is, it is the finding
        return Outcome(watch.crash(crash))
    assert outcome.verdict is not None
    told = f"{damage} {'taken' if is_taken else 'refused'} {outcome.verdict.status}"
    with phases.theirs("onnxruntime"):
        if runtime.opened(result) is not None:
            error, _ = runtime.compare(folder / "sound.onnx", result)
        elif "too old" in outcome.verdict.reason:
            error = ""
        else:
            error = f"refused: onnxruntime does not load what was written after {damage} ({outcome.verdict.summary})"
    return Outcome(error, told, compared=True, tally=[told])
