"""Experiments of `plangate doctor --live`: what no simulation can settle, tried in a repository to throw away."""
