"""The only way out of the sandbox: a process of its own, forked from the warden."""
