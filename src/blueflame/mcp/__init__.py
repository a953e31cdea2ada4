"""Blue Flame for the clients of the Model Context Protocol: Claude Code, Codex, Gemini CLI, opencode and others.

A face like the terminal: it shows what `views/` gives, starts the same commands and sends the same messages.
A model is not a person: no tool decides about a plan, a changeset or money (decision 0070).
The SDK is an extra and imported only by `server` and `answer`, which the command imports late.
"""
