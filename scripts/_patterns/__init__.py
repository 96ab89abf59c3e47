"""The models of scripts/pattern_table.py: every exact pattern around a BatchNormalization, one small model each."""
