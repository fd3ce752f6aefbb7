"""What only a process that serves many threads needs: connections, polling, reconciling, queue, periodic work."""
