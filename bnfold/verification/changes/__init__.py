"""What differs between two models, and what surrounds it, told without running them."""
