"""One language of edits, what it may add to the weights, and the one applier: for folding and simplifying."""
