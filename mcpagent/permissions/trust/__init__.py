"""Consent to start programs, read files and send data: describe the effects of files, compute digests, store
consents.
"""
