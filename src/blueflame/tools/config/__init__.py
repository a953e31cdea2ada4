"""blueflame.yaml: read, judge, bring up to date, show, write."""

from blueflame.tools.config.loading import NAME, Loaded, find, load, parse, read_text, short
from blueflame.tools.config.migrating import Migrated, migrate
from blueflame.tools.config.showing import digest_of, digest_of_resolved, resolved_json, schema_json, show

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
