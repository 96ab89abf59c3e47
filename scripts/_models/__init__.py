"""The models that bnfold is shown, tested and timed on: small ones under models/, full-sized ones on request."""
