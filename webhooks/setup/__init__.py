"""The set-up in the browser (`/setup`): creates the bot's GitHub App while the service knows no account (W4a)."""
