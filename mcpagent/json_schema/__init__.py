"""Values against JSON Schemas of other people, in a number of steps that neither of the two can widen.

Written here, and small, because the libraries cannot promise that. `jsonschema` runs a schema's patterns with `re`,
writes out whole values in each of its messages and follows references in ways that nothing counts. `jsonschema-rs`
holds the interpreter until it is done, which no timeout ends: 18 nested `unevaluatedProperties` take it 5 s, 10,000
objects in an `enum` against 2,000 items as long, errors are all made at once (1.4 GB for 2,000 of them), and 20,000
definitions in a circle end the process.
"""
