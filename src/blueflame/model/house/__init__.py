"""Values of the service over several repositories: what arrives, what became of it, people, the pool."""
