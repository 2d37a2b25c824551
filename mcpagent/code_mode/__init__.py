"""Code mode: the model writes Python that calls tools as functions, checked by their types before it runs."""
