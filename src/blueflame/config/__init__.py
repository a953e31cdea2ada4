"""blueflame.yaml: read, judge, bring up to date, show, write."""

from blueflame.config.load import (
    CONFIG_NAME,
    LoadedConfig,
    find_config,
    load_config,
    parse_config,
    read_config_text,
    shorten_path,
)
from blueflame.config.migrate import Migration, migrate_config
from blueflame.config.show import (
    compute_digest,
    compute_resolved_digest,
    format_config,
    format_json_schema,
    format_resolved_json,
)

__all__ = [
    "CONFIG_NAME",
    "LoadedConfig",
    "Migration",
    "compute_digest",
    "compute_resolved_digest",
    "find_config",
    "format_config",
    "format_json_schema",
    "format_resolved_json",
    "load_config",
    "migrate_config",
    "parse_config",
    "read_config_text",
    "shorten_path",
]
