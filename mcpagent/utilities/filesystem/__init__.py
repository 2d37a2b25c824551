"""Files: bounded reads, atomic changes under a lock, and the folders of the user."""
