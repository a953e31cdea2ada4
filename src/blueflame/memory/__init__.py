"""What later sessions should know: records built from a session, a store, recall for planners, and Beads as a mirror.

`provider` is the interface, `registry` the list of providers. The journal stays the truth: memory can be deleted and
is built again. When a session is saved is decided in orchestrator/observers/memory.
"""
