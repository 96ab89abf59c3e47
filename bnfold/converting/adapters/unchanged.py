"""Steps down that change no node although the schemas do not prove it: the texts of both versions say so.

And operators whose function body in onnx is sound: it is written for them where nothing else can be.
"""

from __future__ import annotations

from bnfold.converting.registry import down_unchanged, sound_body

down_unchanged("Concat", 4)  # its axis is always stated
down_unchanged("Erf", 13)  # integers, which never made sense, go
down_unchanged("ReduceLogSum ReduceLogSumExp", 28)  # as there
down_unchanged("Hardmax LogSoftmax Softmax", 11)  # negative axes

sound_body("Attention CausalConvWithState LinearAttention RotaryEmbedding SwiGLU")
sound_body("BlackmanWindow HammingWindow HannWindow")
sound_body("CenterCropPad DynamicQuantizeLinear SequenceMap")
sound_body("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
