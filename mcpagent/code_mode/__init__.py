"""Code mode: the model writes Python programs that call tools as functions; a type checker checks them before they
run.
"""
