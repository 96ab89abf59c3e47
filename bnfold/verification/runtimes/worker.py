"""A process that runs models in a runtime and writes the results to its output.

It is started as a script, so that it imports numpy and the runtime and nothing else; when the runtime crashes, this
process is all that dies. Messages are one line of JSON that describes the arrays, then their bytes.

Its start is a fifth of a small run, so the module itself imports little.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bnfold.ir.elements import Array

    WorkerSample = dict[str, Array]


def pack(head: Mapping[str, Any], samples: Sequence[Mapping[str, Array]]) -> bytes:
    """Pack one message: ``head`` and lists of named arrays; strings travel in the JSON."""
    import numpy as np

    table, payload = [], []
    for sample in samples:
        row = []
        for name, array in sample.items():
            entry: dict[str, Any] = {"name": name, "dtype": array.dtype.str, "shape": array.shape}
            if array.dtype.kind in "OUS":
                entry |= {"dtype": "text", "text": [str(item) for item in array.reshape(-1)]}
            else:
                payload.append(np.ascontiguousarray(array).tobytes())
            row.append(entry)
        table.append(row)
    return b"".join((json.dumps({**head, "samples": table}).encode(), b"\n", *payload))


def unpack(stream: IO[bytes]) -> tuple[dict[str, Any], list[WorkerSample]]:
    """Return what `pack` made. Raises ValueError on anything else, a truncated message included."""
    import numpy as np

    head = json.loads(stream.readline())
    samples: list[WorkerSample] = []
    for row in head.pop("samples"):
        sample: WorkerSample = {}
        for entry in row:
            if entry["dtype"] == "text":
                sample[entry["name"]] = np.array(entry["text"], dtype=object).reshape(entry["shape"])
                continue
            dtype = np.dtype(entry["dtype"])
            data = stream.read(dtype.itemsize * int(np.prod(entry["shape"], dtype=np.int64)))
            sample[entry["name"]] = np.frombuffer(data, dtype).reshape(entry["shape"])
        samples.append(sample)
    return head, samples


def processors() -> int:
    """Return how many this process may use: those it is bound to, and no more than the quota of its container."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no control groups, or no quota ("max")
        with open("/sys/fs/cgroup/cpu.max", encoding="utf-8") as file:  # noqa: PTH123 - importing pathlib takes longer
            quota, period = file.read().split()
        count = min(count, max(1, int(quota) // int(period)))
    return count


def run_onnxruntime(
    path: str, samples: Sequence[WorkerSample], initializers: WorkerSample, libraries: Sequence[str] = ()
) -> tuple[str, list[WorkerSample]]:
    """Run the model in onnxruntime without graph optimisation, which folds BatchNormalization itself."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    for library in libraries:
        options.register_custom_ops_library(library)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    # The evaluator works meanwhile, on a processor that threads would take from it, those above all that spin.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = max(1, processors() - 1)
    if not samples:  # the model is only opened, and weights stay in their file unless they are packed for a run
        options.add_session_config_entry("session.disable_prepacking", "1")
    moved = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in initializers.items()}
    for name, value in moved.items():  # which have to outlive the session
        options.add_initializer(name, value)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs() if value.type.startswith("tensor(")]
    results = []
    for sample in samples:
        feeds = {name: array for name, array in sample.items() if name in wanted}
        results.append(dict(zip(names, session.run(names, feeds), strict=True)))
    return f"onnxruntime {onnxruntime.__version__}", results


def run_openvino(
    path: str, samples: Sequence[WorkerSample], _: WorkerSample, __: Sequence[str] = ()
) -> tuple[str, list[WorkerSample]]:
    """Return the model in OpenVINO on the CPU, in float32; by default it may compute in a shorter type."""
    import numpy as np
    import openvino

    core = openvino.Core()
    core.set_property({"ENABLE_MMAP": False, "INFERENCE_NUM_THREADS": processors()})
    compiled = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = []
    # A port may be without a tensor name: an input then goes by its node's, an output by its place.
    inputs = [port.names or {port.node.get_friendly_name()} for port in compiled.inputs]
    outputs = [port.names or {f"output {index}"} for index, port in enumerate(compiled.outputs)]
    for sample in samples:
        # Copies: OpenVINO takes no array that it may not write to, and these lie in the message.
        feeds = {
            index: np.array(sample[name]) for index, names in enumerate(inputs) for name in names if name in sample
        }
        answer = compiled(feeds)
        results.append({name: np.array(answer[index]) for index, names in enumerate(outputs) for name in names})
    return f"openvino {openvino.__version__.split('-')[0]}", results


_WARM_UP, _LEAST, _MOST = 3, 5, 500
"""Pairs of runs that are not counted, and of those that are."""


def time_onnxruntime(
    paths: Sequence[str], sample: WorkerSample, seconds: float, libraries: Sequence[str]
) -> tuple[str, list[list[float]]]:
    """Run two models in turns as a deployer would, on one thread; return the seconds of each run, pair by pair."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for library in libraries:
        options.register_custom_ops_library(library)
    sessions = [onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]) for path in paths]
    wanted = [{value.name for value in session.get_inputs()} for session in sessions]
    feeds = [{name: array for name, array in sample.items() if name in names} for names in wanted]
    times: list[list[float]] = [[], []]
    until = time.perf_counter() + seconds
    for turn in range(_WARM_UP + _MOST):
        for which in (0, 1) if turn % 2 else (1, 0):
            started = time.perf_counter()
            sessions[which].run(None, feeds[which])
            times[which].append(time.perf_counter() - started)
        if turn == _WARM_UP - 1:
            times, until = [[], []], time.perf_counter() + seconds
        elif turn >= _WARM_UP + _LEAST and time.perf_counter() > until:
            break
    return f"onnxruntime {onnxruntime.__version__}", times


RUNTIMES = {"onnxruntime": run_onnxruntime, "openvino": run_openvino}


def main() -> None:
    """Answer requests until there are no more. Whatever the runtime prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # standard output belongs to the answers
    requests = os.fdopen(os.dup(0), "rb")
    gc.disable()  # what is imported stays
    for module in sys.argv[1:]:
        with suppress(Exception):  # the request for it will report the failure
            importlib.import_module(module)
    gc.enable()
    while requests.peek(1):
        head, samples = unpack(requests)
        initializers = samples.pop() if head.get("has_initializers") else {}
        if "beside" in head:
            answers.write(_timed(head, samples[0]))
        else:
            answers.write(_answer(head["runtime"], head["model"], samples, initializers, head.get("libraries", ())))
        answers.flush()


_NO_MEMORY = ("bad allocation", "bad_alloc", "allocate memory", "out of memory")
"""What runtimes say where memory is short."""


def _answer(
    runtime: str, model: str, samples: Sequence[WorkerSample], initializers: WorkerSample, libraries: Sequence[str]
) -> bytes:
    try:
        version, results = RUNTIMES[runtime](model, samples, initializers, libraries)
        return pack({"version": version, "error": ""}, results)
    except ImportError as error:
        # Said here and not before: an interpreter of its own may have what the caller's has not.
        absent = isinstance(error, ModuleNotFoundError) and error.name == runtime
        text = f"{runtime} is not installed" if absent else f"{type(error).__name__}: {error}"
        has_looked = False
    except Exception as error:  # noqa: BLE001 - a runtime may raise anything, and what it says is the result
        text = f"{type(error).__name__}: {error}"
        has_looked = not (isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY))
    version = getattr(sys.modules.get(runtime), "__version__", "").split("-")[0]
    return pack({"version": f"{runtime} {version}".strip(), "error": text, "has_looked": has_looked}, [])


def _timed(head: Mapping[str, Any], sample: WorkerSample) -> bytes:
    try:
        version, times = time_onnxruntime(
            [head["model"], head["beside"]], sample, head["seconds"], head.get("libraries", ())
        )
        return pack({"version": version, "error": "", "times": times}, [])
    except Exception as error:  # noqa: BLE001 - as above
        return pack({"version": head["runtime"], "error": f"{type(error).__name__}: {error}"}, [])


if __name__ == "__main__":
    main()
