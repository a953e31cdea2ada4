"""Documents that people and agents write: plans, verdicts, decisions and tasks files, read strictly; and exports.

`yaml` is the only reader and writer of YAML and JSON text: plain data, with the line of every key and problem.
A new kind of document is one module here. The configuration has its own package (config/), built on `yaml`.
"""
