"""The sandboxed process that runs tools on one checkout: it has no key, opens no socket but the tunnel's, imports nothing of the bot."""
