"""Experiments of `plangate doctor --live`: what no simulation can prove, tried in a disposable repository."""
