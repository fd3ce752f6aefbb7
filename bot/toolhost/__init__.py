"""The sandboxed process of tools: it has no key, imports nothing of the bot, and opens no socket but the tunnel's."""
