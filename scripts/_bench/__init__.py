"""The parts of scripts/benchmark.py.

`cases` and `tools` list the models and the tools, `measure` runs them, `table` shows the results. These modules import
the standard library alone: a child's peak memory is never reported below its parent's size at the fork. The parts that
need numpy or onnx (`generate`, `peers`, `quality`) are scripts of their own, run as children.
"""
