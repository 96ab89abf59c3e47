"""Rewrites beside the search for absorbers: each a finder that yields what `bnfold.folding.context` carries out."""
