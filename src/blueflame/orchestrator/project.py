"""A repository with its configuration, identified by the configuration file.

Everything is loaded on first use: commands that only read the journal use `state`, and never load the settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blueflame.config.locate import find_config, may_name_repo, resolve_repo_folder
from blueflame.system.files import find_current_folder
from blueflame.system.layout import ProjectPaths, StatePaths

if TYPE_CHECKING:
    from blueflame.config.load import LoadedConfig
    from blueflame.git.repository import Repository
    from blueflame.model.settings import Settings


class Project:
    def __init__(self, config: Path, overrides: Mapping[str, Any] | None = None) -> None:
        self.config = config
        self.overrides = dict(overrides or {})

    def override(self, overrides: Mapping[str, Any]) -> Project:
        """Return the project with these values, by their keys, in the place of those of the configuration."""
        return Project(self.config, overrides) if overrides != self.overrides else self

    @classmethod
    def from_loaded(cls, loaded: LoadedConfig) -> Project:
        """The project of a configuration that may not be on disk yet."""
        project = cls(loaded.path)
        project.loaded = loaded
        return project

    @cached_property
    def loaded(self) -> LoadedConfig:
        """The configuration; raises ConfigError with every problem in it."""
        return self.read_config()

    def read_config(self) -> LoadedConfig:
        """Read the configuration as it is now."""
        from blueflame.config.load import load_config, override_settings

        return override_settings(load_config(self.config), self.overrides)

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @cached_property
    def root(self) -> Path:
        """The top of the work tree; it needs no base branch."""
        from blueflame.git.repository import find_root

        return find_root(self.loaded.repo)

    @cached_property
    def repo(self) -> Repository:
        """The repository; raises Refused when sessions cannot work in it.

        Without the base branch of the configuration, on that of the newest session that has one: it can be undone,
        shown and cleaned up, and only a new session is refused (orchestrator/preflight).
        """
        from blueflame.git.repository import open_repository
        from blueflame.model.errors import NoBaseBranch

        try:
            return open_repository(self.loaded.repo, base_branch=self.settings.project.base_branch)
        except NoBaseBranch:
            for base in self._list_used_bases():
                with suppress(NoBaseBranch):
                    return open_repository(self.loaded.repo, base_branch=base)
            raise

    def _list_used_bases(self) -> tuple[str, ...]:
        """The base branches of the sessions, newest first; before them that of an unfinished one."""
        from blueflame.journal.journal import Journal

        if not self.state.journal.exists():
            return ()
        with Journal.open_read_only(self.state.journal) as journal:
            left, known = journal.find_unfinished(), journal.list_sessions()
        return tuple(
            dict.fromkeys(each.base_branch for each in (*([left] if left else []), *known) if each.base_branch)
        )

    @cached_property
    def state(self) -> StatePaths:
        """The state folder. Git and the settings are read only where the configuration file is not at the root."""
        folder = resolve_repo_folder(self.config, ".")
        at_root = (folder / ".git").exists() and not may_name_repo(self.config)
        return StatePaths(folder if at_root else self.root)

    @cached_property
    def paths(self) -> ProjectPaths:
        root, settings = self.root, self.settings.project
        return ProjectPaths(
            root=root,
            worktrees=Path(os.path.normpath(root / Path(settings.worktree_dir).expanduser())),
            tasks_file=root / settings.tasks_file,
        )

    def check(self) -> None:
        """Load the configuration and open the repository; raise what is wrong with them."""
        self.repo  # noqa: B018 (the property does it)


def open_project(config: Path | None = None, *, start: Path | None = None) -> Project:
    """Open the project of the given configuration file, or of the nearest one above `start`."""
    return Project(find_config(start or find_current_folder(), config))
