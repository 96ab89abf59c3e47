"""What brings an operator over one version step: functions of a `Site`, listed in :mod:`bnfold.converting.table`."""
