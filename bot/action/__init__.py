"""The GitHub Action. SHELL: one event in, its thread looked at until it rests."""
