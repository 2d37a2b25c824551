"""Child processes: what they leave, their watchdog, and programs with bounded output."""
