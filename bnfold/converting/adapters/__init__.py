"""Functions of a `NodeConversion` that bring it over one version step; :mod:`bnfold.converting.table` lists them."""
