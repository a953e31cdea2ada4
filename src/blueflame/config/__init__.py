"""blueflame.yaml: read, judge, bring up to date, show, write."""

from blueflame.config.load import NAME, Loaded, find, load, parse, read_text, short
from blueflame.config.migrate import Migrated, migrate
from blueflame.config.show import digest_of, digest_of_resolved, resolved_json, schema_json, show

__all__ = [
    "NAME",
    "Loaded",
    "Migrated",
    "digest_of",
    "digest_of_resolved",
    "find",
    "load",
    "migrate",
    "parse",
    "read_text",
    "resolved_json",
    "schema_json",
    "short",
    "show",
]
