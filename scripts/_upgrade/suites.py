"""Script: `suites.py SOURCE FOLDER` stores the upward conversions of the version converter's own tests.

SOURCE is the unpacked source distribution of the installed onnx. The tests run, and every model that they pass to
the converter becomes a file of FOLDER, named after the test and the target opset.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import version_converter

SUITES = ("version_converter_test.py", "version_converter/automatic_upgrade_test.py")


def recording(convert: Callable[..., onnx.ModelProto], folder: Path) -> Callable[..., onnx.ModelProto]:
    """Return the converter, which now stores every upward conversion before it makes it."""
    counts = dict[str, int]()

    def record(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
        opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
        if opset < target:
            test = re.sub(r"\W+", "_", os.environ["PYTEST_CURRENT_TEST"].split("::", 1)[1].rsplit(" ", 1)[0]).strip("_")
            counts[test] = counts.get(test, 0) + 1
            onnx.save(model, folder / f"{test}_{counts[test]}.to{target}.onnx")
        return convert(model, target)

    return record


def main() -> int:
    """Run the suites; their own verdict is the exit code."""
    source, folder = Path(sys.argv[1]) / "tests" / "python", Path(sys.argv[2])
    sys.path.insert(0, str(source / "version_converter"))
    version_converter.convert_version = recording(version_converter.convert_version, folder)
    options = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(source)]
    return int(pytest.main([*options, *(str(source / suite) for suite in SUITES)]))


if __name__ == "__main__":
    raise SystemExit(main())
