"""Every exact pattern around a BatchNormalization, one small model each: what scripts/pattern_table asks all tools."""
