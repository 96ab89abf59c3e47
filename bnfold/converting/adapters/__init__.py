"""Functions of a `NodeConversion` that bring it over one version step, registered with `bnfold.converting.registry`."""
