"""How an answer is asked for as data, by what a model and its server take, and how it is read."""
