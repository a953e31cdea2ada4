from __future__ import annotations

import pytest

from blueflame.git.project_id import normalize_remote


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/team/sample",
        "https://token@example.org/team/sample.git",
        "https://user:word@Example.org/team/sample.git/",
        "git@example.org:team/sample.git",
        "ssh://git@example.org/team/sample.git",
        "ssh://git@example.org:22/team/sample",
    ],
)
def test_one_remote_has_one_name_and_no_password(url: str) -> None:
    assert normalize_remote(url) == "example.org/team/sample"


@pytest.mark.parametrize("url", ["", "/srv/git/sample.git", "../sample"])
def test_a_folder_stays_what_it_is(url: str) -> None:
    assert normalize_remote(url) == url.removesuffix(".git")
