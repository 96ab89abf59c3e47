"""The effect of folding on later int8 quantisation: a network, its quantised forms, and the error of each."""
