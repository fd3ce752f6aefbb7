"""Verbs: each stage of the gate that asks for an effect has the file of that name (house.md).

Packages hold what the verbs share: journal, session, execution, and outbox.
"""
