"""What happened to each BatchNormalization, as data, JSON and HTML."""
