"""All sources of a house, by their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from blueflame.intake.feeds import build_feed_sources
from blueflame.intake.issues import build_issue_sources
from blueflame.intake.plan_files import build_plan_sources
from blueflame.intake.schedules import build_schedule_sources
from blueflame.intake.source import Source, SourceContext
from blueflame.intake.webhooks import build_webhook_sources
from blueflame.model.settings.sources import SourceSettings

SOURCE_BUILDERS: Mapping[str, Callable[[SourceSettings, SourceContext], Sequence[Source]]] = {
    "plans": build_plan_sources,
    "feeds": build_feed_sources,
    "schedules": build_schedule_sources,
    "webhooks": build_webhook_sources,
    "issues": build_issue_sources,
}


def build_sources(settings: SourceSettings, context: SourceContext) -> tuple[Source, ...]:
    """Build what is configured. Raises UsageError or Refused for what cannot be used; nothing is started."""
    return tuple(source for build in SOURCE_BUILDERS.values() for source in build(settings, context))
