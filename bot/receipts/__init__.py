"""Signing and checking of receipts. Imports core alone, and the `cryptography` library lazily."""
