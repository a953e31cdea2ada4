"""Whether this machine is fit, and whether every guard holds."""
