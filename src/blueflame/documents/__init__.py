"""Documents that people and agents write: plans, verdicts, decisions and tasks files, read strictly; and exports.

`yaml` reads and writes YAML and JSON text: plain data, with the line of every key and problem.
Only the configuration is also written with its comments, by ruamel.yaml itself (config/show, config/migrate).
A new kind of document is one module here. The configuration has its own package (config/), built on `yaml`.
"""
