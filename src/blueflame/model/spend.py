"""What an agent used: tokens by kind and money in millionths of a dollar, so that sums are exact."""

from __future__ import annotations

from enum import StrEnum

from blueflame.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    micro_usd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def usd(self) -> float:
        return self.micro_usd / 1_000_000

    @property
    def tokens(self) -> int:
        """Everything the model read or wrote; cache tokens count too."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Spend) -> Spend:
        return Spend(
            micro_usd=self.micro_usd + other.micro_usd,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
        )

    def __sub__(self, other: Spend) -> Spend:
        return Spend(
            micro_usd=self.micro_usd - other.micro_usd,
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cache_read_tokens=self.cache_read_tokens - other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - other.cache_write_tokens,
        )


NO_SPEND = Spend()


def to_micro_usd(usd: float) -> int:
    return round(usd * 1_000_000)


class Unit(StrEnum):
    USD = "usd"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in one unit: millionths of a dollar, or tokens. 0 means unlimited."""

    unit: Unit = Unit.USD
    limit: int = 0

    @property
    def unlimited(self) -> bool:
        return self.limit == 0

    def measure(self, spend: Spend) -> int:
        return spend.micro_usd if self.unit is Unit.USD else spend.tokens

    @property
    def amount(self) -> float | int | None:
        """The limit in dollars or tokens, for other programs; None without a limit."""
        if self.unlimited:
            return None
        return self.limit / 1_000_000 if self.unit is Unit.USD else self.limit

    def format_amount(self, amount: int) -> str:
        return f"${amount / 1_000_000:.2f}" if self.unit is Unit.USD else f"{amount:,} tokens"


UNLIMITED = Budget()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the budget of its task, the session or the day leaves to an attempt."""

    name: str  # task | session | day
    budget: Budget
