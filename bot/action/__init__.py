"""The GitHub Action. SHELL: handles one event, and looks at its thread until it rests."""
