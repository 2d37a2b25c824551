"""Consent to run, read and send: describe what files request, compute digests, and store the user's approvals."""
