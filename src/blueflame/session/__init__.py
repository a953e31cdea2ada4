"""Events to state, state to next events and effects. Pure."""
