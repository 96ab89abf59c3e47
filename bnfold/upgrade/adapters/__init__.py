"""What brings one operator over one version step: a function of a `Site` each, listed in :mod:`bnfold.upgrade.table`."""
