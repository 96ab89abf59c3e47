"""The parts that the scripts share which measure time.

`cases` and `tools` list the models and the tools of the benchmark, `measure` runs processes, `racing` runs models in a
runtime, `table` shows the results. All but `racing` import the standard library alone: a child's peak memory is never
reported below its parent's size at the fork. The parts that need numpy or onnx (`generate`, `peers`, `quality`) are
scripts of their own, run as children.
"""
