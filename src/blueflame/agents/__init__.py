"""How each agent program is started and how its output is read; the warden owns the process."""
