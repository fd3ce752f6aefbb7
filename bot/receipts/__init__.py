"""Signing and checking of receipts. Imports only core, and the `cryptography` library when it is needed."""
