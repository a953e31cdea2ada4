"""`blueflame doctor`: whether this machine is fit for a session, and whether every guard holds.

`environment` examines programs, repository and journal; `guards` is the table of guards, tried by `probes` in the
sandboxes of `probe_runs`, which attack `fixtures`.
"""
