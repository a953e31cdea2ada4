"""YAML and JSON that people and agents write: read strictly, each problem with its line."""
