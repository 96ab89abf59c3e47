"""The models that show, test and time bnfold: small ones under models/, full-sized ones on request."""
