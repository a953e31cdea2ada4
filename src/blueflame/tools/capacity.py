"""How many agents the machine can bear now."""

from __future__ import annotations

import psutil

from blueflame.model.limits import Capacity
from blueflame.model.settings import Settings

MANY = 1_000


def measure(settings: Settings, running: int) -> Capacity:
    """What runs already, plus what the memory that is left has room for (E-09); never less than one."""
    concurrency = settings.concurrency
    if not concurrency.adaptive:
        return Capacity(agents=MANY)
    free_mb = psutil.virtual_memory().available // 2**20
    agents = max(1, running + int(free_mb // concurrency.adaptive_min_ram_per_agent_mb))
    reason = f"{free_mb} MB of memory are free, {concurrency.adaptive_min_ram_per_agent_mb} MB are asked per agent"
    return Capacity(agents=agents, reason=reason)
