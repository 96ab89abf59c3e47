"""What people come with, and what they type then: the first page of the help. And which options most people need."""

from __future__ import annotations

NEEDS = (
    ("fewer operators", "optimize IN OUT"),
    ("keep the opset", "optimize IN OUT --opset keep"),
    ("fold BatchNormalization only", "fold IN OUT"),
    ("an old runtime: a lower opset", "convert IN OUT --opset 13"),
    ("the lowest opset possible", "convert IN OUT --opset lowest"),
    ("an old model: a newer opset", "convert IN OUT --opset 17"),
    ("an older IR version", "convert IN OUT --ir-version 8"),
    ("no BatchNormalization (NPU)", "optimize IN OUT --decompose remaining"),
    ("fixed input or batch sizes", "optimize IN OUT --fix-shapes x=1,3,8,8"),
    ("weights that do not grow", "optimize IN OUT --max-growth 0"),
    ("leave one rewrite out", "optimize IN OUT --disable NAME"),
    ("compare two models", "verify BEFORE AFTER"),
    ("compare folders, by name", "verify BEFORE/ AFTER/"),
    ("float16 tolerance", "verify BEFORE AFTER --tolerance float16"),
    ("int8 tolerance", "verify BEFORE AFTER --tolerance 0.05"),
    ("compare on your own inputs", "verify BEFORE AFTER --data inputs.npz"),
    ("a quicker verification", "optimize IN OUT --verify local"),
    ("no verification", "optimize IN OUT --no-verify"),
    ("write verified results only", "optimize IN OUT --require-verified"),
    ("why a result is unverified", "optimize IN OUT --explain"),
    ("what differs, node by node", "diff BEFORE AFTER"),
    ("check another tool's result", "run IN OUT -- onnxslim {input} {output}"),
    ("whether a runtime loads it", "inspect IN --runtime onnxruntime"),
    ("how fast the result is", "optimize IN OUT --latency"),
    ("weights that are also inputs", "optimize IN OUT --overridable freeze"),
    ("weights inside one file", "optimize IN OUT --external-data none"),
    ("a report to read", "optimize IN OUT --report why.html"),
    ("all models of a folder", "optimize IN/ OUT/ --jobs 4"),
    ("a check for CI", "inspect IN --as-is --assert-none"),
)
"""A need in a user's words, and what follows ``bnfold``; the examples hold for other commands as well."""

COMMON = frozenset({
    "target_opset", "ir_version", "fix_shapes", "decompose", "assert_none", "as_is", "disable", "simplify", "depth",
    "no_verify", "require_verified", "tolerance", "inputs", "data", "explain", "values", "report", "as_json",
    "output_format", "in_place", "dry_run", "external_data", "quiet", "verbose", "jobs", "exclude",
    "runtime", "latency", "overridable", "frozen", "max_growth",
})  # fmt: skip
"""Options that ``--help`` lists; ``--help-all`` lists all of them."""
