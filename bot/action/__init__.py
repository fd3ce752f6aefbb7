"""The GitHub Action. SHELL: handles one event, and checks its thread until it rests."""
