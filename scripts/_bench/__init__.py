"""scripts/benchmark in parts.

`cases` and `tools` say what is measured, `measure` runs it, `table` shows it. These import the standard library alone:
a child's peak memory is never reported below its parent's size at the fork. What needs numpy or onnx (`generate`,
`peers`, `quality`) is a script of its own, run as a child.
"""
