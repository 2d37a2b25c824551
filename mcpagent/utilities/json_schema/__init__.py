"""Check values against third-party JSON Schemas, in a bounded number of steps for any schema and value.

mcpagent has its own small implementation because the libraries cannot guarantee a bound. `jsonschema` runs a schema's
patterns with `re`, writes whole values into each of its messages and follows references without a count.
`jsonschema-rs` holds the interpreter lock until it ends, and no timeout ends it: 18 nested `unevaluatedProperties` take
5 s, and so do 10,000 objects in an `enum` against 2,000 items. It creates all errors at once (1.4 GB for 2,000 errors),
and 20,000 circular definitions crash the process.
"""
