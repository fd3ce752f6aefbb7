"""Verbs: each stage of the gate that has an effect has a file of that name.

Packages hold what the verbs share: journal, session, execution, and outbox.
"""
