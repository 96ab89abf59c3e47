"""Results of the benchmark, as a table to read and as data to keep."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from _bench.cases import Case
from _bench.measure import Series

_MIB = 2**20
_PACKAGES = ("numpy", "onnx", "onnxruntime", "onnx-ir", "onnxscript", "onnxsim", "onnxslim", "onnxoptimizer")
_COLUMNS = ("", "wall s", "cpu s", "peak MiB", "cpu: bnfold / this", "(min .. max)", "BN left", "ulps W", "ulps b")


def head(columns: Sequence[str]) -> str:
    """Return the two lines that begin a Markdown table."""
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"


def nine_tenths(numbers: Sequence[float]) -> float:
    """Return a number that nine tenths of the numbers are below."""
    return sorted(numbers)[min(len(numbers) - 1, int(0.9 * len(numbers)))]


DISTRIBUTION: dict[str, Callable[[Sequence[float]], float]] = {
    "median": median,
    "nine tenths": nine_tenths,
    "worst": max,
}
"""What describes many measurements, where large ones are bad."""


def distribution(numbers: Sequence[float], form: str) -> str:
    """Return it in words; ``form`` is the format of a number."""
    return ", ".join(f"{name} {find(numbers):{form}}" for name, find in DISTRIBUTION.items())


def ratios(ours: Series, theirs: Series) -> list[float]:
    """Return bnfold's processor time over another tool's, round by round: the clock has what else the machine does."""
    return [mine.cpu / other.cpu for mine, other in zip(ours.runs, theirs.runs, strict=False)]


def machine() -> dict[str, str]:
    """Describe the machine and the versions, without which no figure can be compared."""
    versions = {name: _version(name) for name in _PACKAGES}
    return {
        "system": platform.platform(),
        "processors": str(os.cpu_count()),
        "python": platform.python_version(),
        **{name: version for name, version in versions.items() if version},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def as_data(case: Case, series: list[Series]) -> dict[str, Any]:
    """Return one case's results in plain types; seconds and bytes."""
    return {
        "case": case.name,
        "job": case.job,
        "tools": {
            entry.tool.name: {
                "wall": [run.wall for run in entry.runs],
                "cpu": [run.cpu for run in entry.runs],
                "peak": [run.peak for run in entry.runs],
                "bnfold_over_this": ratios(series[0], entry),
                "failure": entry.failure or None,
                **entry.quality,
            }
            for entry in series
        },
    }


def as_text(case: Case, series: list[Series]) -> str:
    """Return one case's results as lines of equal width."""
    rows = [_COLUMNS, *(_row(entry, series[0]) for entry in series if entry.runs)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = [f"{case.name} ({case.job}, {max(len(entry.runs) for entry in series)} rounds)"]
    for name, *figures in rows:
        cells = (figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True))
        lines.append("  " + "  ".join([name.ljust(widths[0]), *cells]).rstrip())
    lines += [f"  {entry.tool.name}: {entry.failure}" for entry in series if entry.failure]
    return "\n".join(lines)


def _row(entry: Series, ours: Series) -> tuple[str, ...]:
    pairs = ratios(ours, entry) if entry is not ours else []
    quality = (entry.quality.get(key) for key in ("left", "weight_ulps", "bias_ulps"))
    return (
        entry.tool.name,
        f"{median(run.wall for run in entry.runs):.3f}",
        f"{median(run.cpu for run in entry.runs):.3f}",
        f"{max(run.peak for run in entry.runs) / _MIB:.0f}",
        f"{median(pairs):.2f}" if pairs else "",
        f"({min(pairs):.2f} .. {max(pairs):.2f})" if pairs else "",
        *("" if figure is None else f"{figure:.4g}" for figure in quality),
    )
