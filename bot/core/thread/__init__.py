"""The state of a thread, one module for each part of it; `core.thread.state` puts them together."""
