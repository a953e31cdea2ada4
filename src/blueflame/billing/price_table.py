"""The built-in prices, as dated data: dollars per million tokens; the last column is per web search.

anthropic: derived on 2026-11-16 from the list prices that Claude Code 2.1.325 uses: it was given known usage by a fake
API, one kind of token at a time, and `modelUsage.*.costUSD` was read. Models that it no longer calls are priced from
Anthropic's published list of 2025.
openai, google: from public lists, some of them older, not checked against a bill. Batch, flex, priority and fast tiers
are missing.

The first row that matches counts, so the more exact name comes first. A row with `above` prices whole calls that read
more tokens than that.
"""

from __future__ import annotations

from typing import TypeAlias

AS_OF = "2026-11-16"

PriceLine: TypeAlias = tuple[str, str, int, float, float, float, float, float, float]

PRICE_LINES: tuple[PriceLine, ...] = (
    # vendor, model, above, input, output, cache_read, cache_write, cache_write_1h, web_search
    ("anthropic", "*claude-haiku-5-5*", 100_000, 0.5, 2.5, 0.05, 0.625, 1.0, 0.01),
    ("anthropic", "*claude-haiku-5-5*", 0, 0.1, 0.5, 0.01, 0.125, 0.2, 0.01),
    ("anthropic", "*claude-opus-5-5*", 0, 4, 20, 0.2, 5, 8, 0.01),
    ("anthropic", "*claude-sonnet-5-5*", 0, 2, 10, 0.1, 2.5, 4, 0.01),
    ("anthropic", "*claude-fable-5-2*", 0, 8, 40, 0.2, 10, 16, 0.01),
    ("anthropic", "*claude-fable-5-1*", 0, 10, 50, 0.25, 12.5, 20, 0.01),
    ("anthropic", "*claude-fable-5*", 0, 10, 50, 1, 12.5, 20, 0.01),
    ("anthropic", "*claude-mythos-5-2*", 0, 8, 40, 0.2, 10, 16, 0.01),
    ("anthropic", "*claude-mythos-5-1*", 0, 10, 50, 0.25, 12.5, 20, 0.01),
    ("anthropic", "*claude-mythos-5*", 0, 10, 50, 1, 12.5, 20, 0.01),
    ("anthropic", "*claude-opus-5*", 0, 5, 25, 0.5, 6.25, 10, 0.01),
    ("anthropic", "*claude-sonnet-5*", 0, 2, 10, 0.2, 2.5, 4, 0.01),
    ("anthropic", "*claude-opus-4-1*", 0, 15, 75, 1.5, 18.75, 30, 0.01),
    ("anthropic", "*claude-opus-4-0*", 0, 15, 75, 1.5, 18.75, 30, 0.01),
    ("anthropic", "*claude-opus-4-2025*", 0, 15, 75, 1.5, 18.75, 30, 0.01),
    ("anthropic", "*claude-opus-4-*", 0, 5, 25, 0.5, 6.25, 10, 0.01),
    ("anthropic", "*claude-sonnet-4*", 0, 3, 15, 0.3, 3.75, 6, 0.01),
    ("anthropic", "*claude-haiku-4-5*", 0, 1, 5, 0.1, 1.25, 2, 0.01),
    ("anthropic", "*claude-3-7-sonnet*", 0, 3, 15, 0.3, 3.75, 6, 0.01),
    ("anthropic", "*claude-3-5-haiku*", 0, 0.8, 4, 0.08, 1, 1.6, 0.01),
    ("openai", "gpt-6.1-sol*", 272_000, 4, 15, 0.2, 5, 10, 0.01),
    ("openai", "gpt-6.1-sol*", 0, 2, 10, 0.1, 2.5, 5, 0.01),
    ("openai", "gpt-6.1-terra*", 272_000, 2, 7.5, 0.1, 2.5, 5, 0.01),
    ("openai", "gpt-6.1-terra*", 0, 1, 5, 0.05, 1.25, 2.5, 0.01),
    ("openai", "gpt-6-sol*", 272_000, 4, 15, 0.4, 5, 5, 0.01),
    ("openai", "gpt-6-sol*", 0, 2, 10, 0.2, 2.5, 2.5, 0.01),
    ("openai", "gpt-6-luna*", 272_000, 0.2, 0.75, 0.02, 0.25, 0.25, 0.01),
    ("openai", "gpt-6-luna*", 0, 0.1, 0.5, 0.01, 0.125, 0.125, 0.01),
    ("openai", "gpt-5.6-sol*", 272_000, 10, 45, 1, 12.5, 12.5, 0.01),
    ("openai", "gpt-5.6-sol*", 0, 5, 30, 0.5, 6.25, 6.25, 0.01),
    ("openai", "gpt-5.6-terra*", 272_000, 4, 18, 0.4, 5, 5, 0.01),
    ("openai", "gpt-5.6-terra*", 0, 2, 12, 0.2, 2.5, 2.5, 0.01),
    ("openai", "gpt-5.6-luna*", 200_000, 0.4, 1.8, 0.04, 0.5, 0.5, 0.01),
    ("openai", "gpt-5.6-luna*", 0, 0.2, 1.2, 0.02, 0.25, 0.25, 0.01),
    ("openai", "gpt-5.5-pro*", 0, 30, 180, 30, 30, 30, 0.01),
    ("openai", "gpt-5.5*", 272_000, 10, 45, 1, 10, 10, 0.01),
    ("openai", "gpt-5.5*", 0, 5, 30, 0.5, 5, 5, 0.01),
    ("openai", "gpt-5.4-mini*", 0, 0.75, 4.5, 0.075, 0.75, 0.75, 0.01),
    ("openai", "gpt-5.4-nano*", 0, 0.2, 1.25, 0.02, 0.2, 0.2, 0.01),
    ("openai", "gpt-5.4-pro*", 0, 30, 180, 30, 30, 30, 0.01),
    ("openai", "gpt-5.4*", 272_000, 5, 22.5, 0.5, 5, 5, 0.01),
    ("openai", "gpt-5.4*", 0, 2.5, 15, 0.25, 2.5, 2.5, 0.01),
    ("openai", "gpt-5.3-codex*", 0, 1.75, 14, 0.175, 1.75, 1.75, 0.01),
    ("openai", "gpt-5.2-pro*", 0, 21, 168, 21, 21, 21, 0.01),
    ("openai", "gpt-5.2*", 0, 1.75, 14, 0.175, 1.75, 1.75, 0.01),
    ("openai", "gpt-5.1-codex-mini*", 0, 0.25, 2, 0.025, 0.25, 0.25, 0.01),
    ("openai", "gpt-5.1*", 0, 1.25, 10, 0.125, 1.25, 1.25, 0.01),
    ("openai", "gpt-5-pro*", 0, 15, 120, 15, 15, 15, 0.01),
    ("openai", "gpt-5-mini*", 0, 0.25, 2, 0.025, 0.25, 0.25, 0.01),
    ("openai", "gpt-5-nano*", 0, 0.05, 0.4, 0.005, 0.05, 0.05, 0.01),
    ("openai", "gpt-5-codex*", 0, 1.25, 10, 0.125, 1.25, 1.25, 0.01),
    ("openai", "gpt-5", 0, 1.25, 10, 0.125, 1.25, 1.25, 0.01),
    ("openai", "gpt-5-2025*", 0, 1.25, 10, 0.125, 1.25, 1.25, 0.01),
    ("openai", "gpt-4.1-mini*", 0, 0.4, 1.6, 0.1, 0.4, 0.4, 0.01),
    ("openai", "gpt-4.1-nano*", 0, 0.1, 0.4, 0.025, 0.1, 0.1, 0.01),
    ("openai", "gpt-4.1*", 0, 2, 8, 0.5, 2, 2, 0.01),
    ("openai", "o4-mini*", 0, 1.1, 4.4, 0.275, 1.1, 1.1, 0.01),
    ("google", "gemini-3.8-flash", 0, 0.75, 3.75, 0.075, 0.75, 0.75, 0.014),
    ("google", "gemini-3.7-flash", 0, 0.75, 3.75, 0.075, 0.75, 0.75, 0.014),
    ("google", "gemini-3.6-flash", 0, 0.75, 3.75, 0.075, 0.75, 0.75, 0.014),
    ("google", "gemini-3.5-flash", 0, 1.5, 9, 0.15, 1.5, 1.5, 0.014),
    ("google", "gemini-3.1-pro*", 200_000, 4, 18, 0.4, 4, 4, 0.014),
    ("google", "gemini-3.1-pro*", 0, 2, 12, 0.2, 2, 2, 0.014),
    ("google", "gemini-3-pro*", 200_000, 4, 18, 0.4, 4, 4, 0.014),
    ("google", "gemini-3-pro*", 0, 2, 12, 0.2, 2, 2, 0.014),
    ("google", "gemini-3-flash*", 0, 0.5, 3, 0.05, 0.5, 0.5, 0.014),
    ("google", "gemini-2.5-pro*", 200_000, 2.5, 15, 0.25, 2.5, 2.5, 0.035),
    ("google", "gemini-2.5-pro*", 0, 1.25, 10, 0.125, 1.25, 1.25, 0.035),
    ("google", "gemini-2.5-flash-lite*", 0, 0.1, 0.4, 0.01, 0.1, 0.1, 0.035),
    ("google", "gemini-2.5-flash", 0, 0.3, 2.5, 0.03, 0.3, 0.3, 0.035),
    ("google", "gemini-2.5-flash-preview*", 0, 0.3, 2.5, 0.03, 0.3, 0.3, 0.035),
)
