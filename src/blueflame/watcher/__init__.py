"""The first wall at work: hook server, policy file, audit log. Runs inside the warden."""
