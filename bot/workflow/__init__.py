"""Verbs: each stage of the gate that has an effect has a file of that name. The other files hold what verbs share."""
