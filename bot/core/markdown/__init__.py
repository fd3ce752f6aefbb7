"""Markdown as a person sees it, and as it may be posted; pure."""
