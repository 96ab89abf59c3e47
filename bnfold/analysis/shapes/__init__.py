"""What is known of the types and shapes of values; where nothing is, the answer is None, and callers decide.

=============  =====================================================================================================
`inference`    the whole model by onnx, without what runtimes dispute (`disputed`) or weights contradict (`weights`)
`slices`       inference where a Slice may have an input of negative size
`learned`      types of what operators of ai.onnx.ml make
`stepwise`     single values on demand, node by node, in a graph that is half way between two opsets
`proven`       what follows from inputs and weights whatever annotations say; `arithmetic` follows the integers
`unification`  dims that are one size, by the letters of `rules`, from inputs to outputs and back
`queries`      rank, dims and channels of a value by annotations and weights, without any inference
=============  =====================================================================================================
"""
