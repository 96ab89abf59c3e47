"""Operators of other domains that a caller has registered: what is said of each, by domain, type and version.

Nothing here judges what is said. `bnfold.operators` checks it and enters it; the rooms that compute, infer, fold and
convert ask for it.
"""
