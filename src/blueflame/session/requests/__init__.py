"""What a person asks of a running session: more tasks, changes of the tasks file, messages to agents."""
