"""File naming styles. Parts of a name that a tool prescribes (dunder names, test prefixes) are not checked."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

_PRESCRIBED = re.compile(r"^_+|_+$|^test_|_test$|_spec$")


def _is_lower_case_words(stem: str, joint: str) -> bool:
    return stem == stem.lower() and all(word.isalnum() for word in stem.split(joint))


STYLES: Mapping[str, Callable[[str], bool]] = {
    "snake_case": lambda stem: _is_lower_case_words(stem, "_"),
    "kebab-case": lambda stem: _is_lower_case_words(stem, "-"),
    "camelCase": lambda stem: stem.isalnum() and not stem[0].isupper(),
    "PascalCase": lambda stem: stem.isalnum() and not stem[0].islower(),
}


def is_well_named(path: str, style: str) -> bool:
    """Check the name up to its first dot: of `user_service.test.go` that is `user_service`."""
    name = unicodedata.normalize("NFC", path.rpartition("/")[2])
    stem = _PRESCRIBED.sub("", name.lstrip(".").partition(".")[0])
    return not stem or STYLES[style](stem)
