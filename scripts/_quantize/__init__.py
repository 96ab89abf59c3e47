"""What folding does to later int8 quantisation: a network, its quantised forms, and how exact each of them is."""
