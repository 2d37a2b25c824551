"""Who may run, read and send what: descriptions of what files ask for, their digests, and the yeses that were given."""
