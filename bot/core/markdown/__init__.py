"""Markdown as a person sees it, and as the bot may post it. Pure."""
