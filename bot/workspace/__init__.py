"""A safe place to work in: mirror, checkouts, sandbox, clean-room publishing."""
