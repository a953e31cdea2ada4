"""What a person trusts on this machine, outside of every repository: one small file for each configuration file.

It holds digests of settings (`policy/trust.py`), as `direnv allow` does. What was trusted once stays so until it is
revoked: an unfinished session continues with the settings that it was opened with.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from blueflame.model.errors import Refused
from blueflame.system.files import explain_file_errors, parse_json_object, write_atomically
from blueflame.system.layout import find_person_state, make_folder

TRUST_FOLDER = "trust"
OWNER_ONLY = 0o600


def find_trust_folder(environ: Mapping[str, str]) -> Path:
    return find_person_state(environ) / TRUST_FOLDER


def read_trusted(config: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the digests that were trusted for this file; a damaged record trusts nothing."""
    text = _read_own_file(_find_record(config, environ))
    found = parse_json_object(text or "") or {}
    known = found.get("trusted") if found.get("config") == _name_config(config) else None
    return frozenset(each for each in known if isinstance(each, str)) if isinstance(known, list) else frozenset()


def save_trusted(config: Path, environ: Mapping[str, str], digests: Iterable[str]) -> None:
    """Trust these as well."""
    path = _find_record(config, environ)
    make_folder(path.parent)
    trusted = sorted(read_trusted(config, environ) | set(digests))
    record = {"config": _name_config(config), "trusted": trusted}
    write_atomically(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n", mode=OWNER_ONLY)


def remove_trusted(config: Path, environ: Mapping[str, str]) -> None:
    path = _find_record(config, environ)
    with explain_file_errors("remove", path):
        path.unlink(missing_ok=True)


def _name_config(config: Path) -> str:
    """The file's own name is not resolved: a link to a trusted file elsewhere would be trusted with it."""
    return os.path.join(os.path.realpath(config.parent), config.name)  # noqa: PTH118 (a name, not a place)


def _find_record(config: Path, environ: Mapping[str, str]) -> Path:
    name = hashlib.sha256(os.fsencode(_name_config(config))).hexdigest()
    return find_trust_folder(environ) / f"{name[:32]}.json"


def _read_own_file(path: Path) -> str:
    """Read the record; empty without one. Refuse one that another user could have written."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123 (of a descriptor)
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                raise Refused(
                    f"{path} can be written by other users, so it trusts nothing: remove it, and decide again"
                )
            return file.read().decode("utf-8", "surrogateescape")  # a path may have any bytes
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error}), so nothing is trusted: remove it, and decide again") from error
