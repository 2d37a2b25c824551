"""Check values against third-party JSON Schemas, in a number of steps that neither schema nor value can exceed.

mcpagent has its own small implementation because the libraries cannot guarantee that bound. `jsonschema` runs a
schema's patterns with `re`, writes whole values into each of its messages and follows references without a count.
`jsonschema-rs` holds the interpreter until it ends, and no timeout ends it: 18 nested `unevaluatedProperties` take it 5
s, and 10,000 objects in an `enum` against 2,000 items as long. It creates all errors at once (1.4 GB for 2,000 errors),
and 20,000 definitions in a circle end the process.
"""
