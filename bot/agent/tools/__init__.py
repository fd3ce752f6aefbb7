"""The tools: those of the sandbox, of the session itself, of the web, and of GitHub. `registry` lists them."""
