"""The models of scripts/pattern_table: every exact pattern around a BatchNormalization, one small model each."""
