"""The part of a history that a model receives: compute it, estimate its tokens and find the cut."""
