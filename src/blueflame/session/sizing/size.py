"""Decide the tier of a request by rules: the first that fits decides, and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from blueflame.lazy_dataclass import dataclass
from blueflame.model.sizing import CodeMap, PastRequest, Sizing, Tier
from blueflame.session.sizing.places import Places, find_places
from blueflame.session.sizing.similar import weigh_history
from blueflame.session.sizing.wording import Wording, read_wording

SMALL_REPOSITORY = 12  # source files: there is nothing to split
MANY_DEMANDS, FEW_DEMANDS = 4, 3
MANY_AREAS, MANY_DOMAINS = 3, 3
FEW_FILES = 5
LARGE_FOLDER = 20
LEAST_PARTS = 3  # of what has to be planned, as long as no plan says otherwise
LONG_REQUEST, FEW_WORDS = 300, 3
CONFIDENT, LIKELY, UNSURE = 0.9, 0.8, 0.4


@dataclass(frozen=True, slots=True)
class Facts:
    wording: Wording
    places: Places
    sources: int

    @property
    def is_local(self) -> bool:
        """Whether everything that is named lies in one part of the code base."""
        return self.places.is_known and len(self.places.areas) <= 1 and len(self.places.files) <= FEW_FILES


Rule = Callable[[Facts], str]


def size_request(
    request: str,
    code: CodeMap,
    symbol_files: Mapping[str, Sequence[str]],
    history: Iterable[PastRequest] = (),
) -> Sizing:
    """Size a request. `symbol_files`: for each of `list_symbols` the files that contain it."""
    wording = read_wording(request)
    facts = Facts(wording, find_places(wording, code, symbol_files), code.sources)
    return weigh_history(request, _size_by_rules(facts), history)


def list_symbols(request: str) -> tuple[str, ...]:
    """The names in a request that may be symbols of the code."""
    return read_wording(request).symbols


def _size_by_rules(facts: Facts) -> Sizing:
    for tier, confidence, rule in RULES:
        if reason := rule(facts):
            return Sizing(tier=tier, confidence=confidence, reasons=(reason,), parts=_count_parts(facts, tier))
    reason = _say_what_is_missing(facts)
    tier = Tier.PLANNED
    return Sizing(tier=tier, confidence=UNSURE, reasons=(reason,), parts=_count_parts(facts, tier))


def _count_parts(facts: Facts, tier: Tier) -> int:
    if tier is not Tier.PLANNED:
        return 1
    wording, places = facts.wording, facts.places
    return max(wording.demands, len(wording.domains), len(places.areas), len(places.subjects), LEAST_PARTS)


def _say_what_is_missing(facts: Facts) -> str:
    if facts.wording.vague:
        return f"“{facts.wording.vague}” does not say what is to change"
    if not facts.places.is_known:
        return "it names no file, folder or symbol of this repository"
    return "what it names does not tell how much is to change"


def _has_many_demands(facts: Facts) -> str:
    demands = facts.wording.demands
    return f"it asks for {demands} things" if demands >= MANY_DEMANDS and len(facts.places.files) != 1 else ""


def _has_demands_in_one_file(facts: Facts) -> str:
    demands, files = facts.wording.demands, facts.places.files
    return f"it asks for {demands} things, all in {files[0]}" if demands >= MANY_DEMANDS and len(files) == 1 else ""


def _crosses_domains(facts: Facts) -> str:
    wording = facts.wording
    several = len(wording.domains) >= MANY_DOMAINS or (len(wording.domains) == 2 and wording.demands > 1)
    if not several or wording.small or facts.is_local or (wording.is_fix and wording.demands == 1):
        return ""
    return f"it concerns {_join(wording.domains)}"


def _is_mechanical(facts: Facts) -> str:
    wording, spread = facts.wording, facts.places.spread
    if wording.wide and wording.demands == 1 and (wording.small or wording.is_renaming):
        return f"“{wording.wide}”, but the same small change: {wording.small or 'a new name'}"
    if wording.is_renaming and wording.demands == 1 and facts.places.symbols and spread > 1:
        return f"a new name for {_join(facts.places.symbols)}, in {spread} files: mechanical"
    return ""


def _builds_a_product(facts: Facts) -> str:
    product = facts.wording.product
    return f"a whole {product}" if product and not facts.places.is_known else ""


def _changes_everything(facts: Facts) -> str:
    wording = facts.wording
    if wording.wide and facts.sources > SMALL_REPOSITORY and not _is_narrowed(facts):
        return f"“{wording.wide}” in a code base of {facts.sources:,} source files"
    return ""


def _is_narrowed(facts: Facts) -> bool:
    """Whether a wide word is about one place: every page of a tutorial, all functions of a file."""
    folder_is_small = 0 < facts.places.in_folders <= FEW_FILES
    return facts.is_local and (bool(facts.places.files) or folder_is_small)


def _restructures_a_large_folder(facts: Facts) -> str:
    wording, places = facts.wording, facts.places
    if wording.structural and places.folders and places.in_folders > LARGE_FOLDER:
        return f"“{wording.structural}” of {_join(places.folders)} with {places.in_folders} files"
    return ""


def _names_many_places(facts: Facts) -> str:
    areas, files = facts.places.areas, facts.places.files
    if len(areas) >= MANY_AREAS and not facts.wording.small:
        return f"it names {len(files) + len(facts.places.folders)} places in {len(areas)} parts: {_join(areas)}"
    return ""


def _concerns_many_parts(facts: Facts) -> str:
    subjects, wording = facts.places.subjects, facts.wording
    if len(subjects) >= MANY_AREAS and not wording.small and not facts.places.files:
        return f"it concerns {len(subjects)} parts of the code base: {_join(subjects)}"
    return ""


def _is_long(facts: Facts) -> str:
    wording = facts.wording
    long = wording.words > LONG_REQUEST and wording.demands > 1 and not facts.is_local
    return f"it has {wording.words} words and asks for {wording.demands} things" if long else ""


def _is_obvious(facts: Facts) -> str:
    wording, files = facts.wording, facts.places.files
    if wording.small and wording.demands == 1 and len(files) == 1 and not wording.structural and not wording.wide:
        return f"{wording.small} in {files[0]}"
    return ""


def _is_small_somewhere(facts: Facts) -> str:
    wording = facts.wording
    if wording.small and wording.demands <= 2 and not wording.structural and len(facts.places.files) <= FEW_FILES:
        return f"{wording.small}; the place is not named, or there are several"
    return ""


def _stays_in_one_part(facts: Facts) -> str:
    wording, places = facts.wording, facts.places
    if not facts.is_local or wording.demands > FEW_DEMANDS:
        return ""
    if (wording.structural or wording.vague) and not (places.files or 0 < places.in_folders <= FEW_FILES):
        return ""
    if places.files:
        return f"all in one part of the code base: {_join(places.files)}"
    if places.folders and places.in_folders <= LARGE_FOLDER:
        return f"all in {_join(places.folders)} with {places.in_folders} files"
    return f"it is about {_join(places.symbols)}" if places.symbols and not places.folders else ""


def _names_few_files(facts: Facts) -> str:
    files, wording = facts.places.files, facts.wording
    if 0 < len(files) <= FEW_FILES and len(facts.places.areas) < MANY_AREAS and wording.demands <= FEW_DEMANDS:
        return "" if wording.structural or wording.wide or facts.places.folders else f"it names {_join(files)} only"
    return ""


def _is_in_a_small_repository(facts: Facts) -> str:
    wording = facts.wording
    says = wording.words >= FEW_WORDS and not wording.structural and not wording.vague
    if 0 < facts.sources <= SMALL_REPOSITORY and wording.demands <= FEW_DEMANDS and says:
        files = "one source file" if facts.sources == 1 else f"{facts.sources} source files"
        return f"the repository has {files}: little to split"
    return ""


def _is_one_fix(facts: Facts) -> str:
    wording = facts.wording
    one = wording.is_fix and wording.demands == 1 and not wording.vague and not wording.structural
    return "one fix: it cannot be split" if one and len(wording.domains) <= 1 and not wording.wide else ""


def _is_one_addition(facts: Facts) -> str:
    wording = facts.wording
    one = wording.addition and wording.demands == 1 and not wording.vague and not wording.structural
    return f"one addition: {wording.addition}" if one and len(wording.domains) <= 1 and not wording.wide else ""


def _join(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


RULES: tuple[tuple[Tier, float, Rule], ...] = (
    (Tier.PLANNED, CONFIDENT, _has_many_demands),
    (Tier.SINGLE, LIKELY, _has_demands_in_one_file),
    (Tier.SINGLE, LIKELY, _is_mechanical),
    (Tier.PLANNED, CONFIDENT, _crosses_domains),
    (Tier.PLANNED, LIKELY, _builds_a_product),
    (Tier.PLANNED, LIKELY, _changes_everything),
    (Tier.PLANNED, LIKELY, _restructures_a_large_folder),
    (Tier.PLANNED, LIKELY, _names_many_places),
    (Tier.PLANNED, LIKELY, _concerns_many_parts),
    (Tier.PLANNED, LIKELY, _is_long),
    (Tier.DIRECT, CONFIDENT, _is_obvious),
    (Tier.SINGLE, LIKELY, _is_small_somewhere),
    (Tier.SINGLE, LIKELY, _stays_in_one_part),
    (Tier.SINGLE, LIKELY, _names_few_files),
    (Tier.SINGLE, LIKELY, _is_in_a_small_repository),
    (Tier.SINGLE, LIKELY, _is_one_fix),
    (Tier.SINGLE, LIKELY, _is_one_addition),
)
"""In order. What none of them decides is unsure."""
