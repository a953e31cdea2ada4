"""How each agent program is started and how its output is read. The warden owns the process; nothing here starts one.

To add a runtime:
1. One module `agents/<kind>.py` (or package) with `build_runtime(options, root)` that returns a `Runtime` (runtime.py).
   For a program from npm, subclass `NpmRuntime` (programs.py) and write `prepare_launch` and `parse_line`: codex.py is
   the model. `build_runtime` is then `<Class>.from_options`.
2. One row in `model/runtime_support.RUNTIMES`: its model APIs and what it can be held to. Settings, doctor and the
   registry follow from the row; docs/reference/runtimes.md shows it, and a test compares them.
3. For a hook with its own format, a dialect in `policy/dialects` (and its name in `warden/launch_file.py`); for a new
   model API, a vendor in `agents/credentials.py`. A program without a hook works like acp: what it did is detected.
"""
