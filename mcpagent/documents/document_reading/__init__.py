"""Read files and pages as text: their kind, a worker process for parsers, and chunks along the headings."""
