"""The sandboxed process that runs tools on one checkout: it has no key, opens no socket, imports nothing of the bot."""
