"""One session with the model: loop, tools, permissions, sub-agents. Knows nothing of GitHub."""
