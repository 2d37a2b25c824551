"""Documents: a store of chunks of files and pages, and toolsets that search, read and cite it."""
