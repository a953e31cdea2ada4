"""The third wall: what a result changed, checked after the agent has ended. Pure."""
