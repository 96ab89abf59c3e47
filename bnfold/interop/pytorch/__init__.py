"""The implementation of `bnfold.pytorch`: exports, inputs, and the comparison with the module itself."""
