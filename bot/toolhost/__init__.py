"""The sandboxed process that runs tools on one checkout. It has no key, imports nothing of the bot, and opens no socket
but the tunnel's."""
