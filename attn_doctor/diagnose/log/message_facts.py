"""Reads facts from one message of a log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.log.advice import advice_in
from attn_doctor.diagnose.log.calls import PASSES_ON, is_own_code, phase_in, raised_in
from attn_doctor.diagnose.log.engines import ENGINE, is_its
from attn_doctor.diagnose.log.facts import fact
from attn_doctor.diagnose.log.match import Match
from attn_doctor.diagnose.log.memory_held import held_by_others
from attn_doctor.diagnose.log.names_wanted import name_wanted, type_of_no_release, with_class
from attn_doctor.diagnose.log.owners import owner, whole_name
from attn_doctor.diagnose.log.programs import plugin_of
from attn_doctor.diagnose.log.refusals import divides_by, refuser
from attn_doctor.diagnose.log.releases_listed import beside_those_listed
from attn_doctor.diagnose.log.shapes import heads_laid_out, is_keys_twice, is_longer_again, is_part_again
from attn_doctor.diagnose.log.subjects import compiled_in_checkout, subject_of
from attn_doctor.diagnose.log.torch_not_found import torch_not_found
from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.diagnose.log.went_on import went_on
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, Value
from attn_doctor.probe.packages.known_packages import PACKAGES, distribution_of
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.flash_since import flash_since
from attn_doctor.recipes.data.new_names import new_name
from attn_doctor.recipes.data.torch_symbols import has_symbol

_SDPA = when_used(
    r"query\.dtype: ?(?P<q>\S+) key\.dtype: ?(?P<k>\S+) and value\.dtype: ?(?P<v>\S+?)(?: instead|\.?$)", re.MULTILINE
)
_ROLE = when_used(
    r"\b(?P<role>[qkv]|query|key|value)(?:[._ ]dtype *)?[:=] ?(?:torch\.)?"
    r"(?P<dtype>float32|float16|bfloat16|half|float)\b"
)
_FLOAT = when_used(r"(?:c10::|torch\.)?(?:float|Float|float32)\Z")
#: Mangled, or as spelled by `c++filt`.
_SYMBOL = when_used(r"undefined symbol: ?(?P<symbol>(?:[a-z ]{4,20} for )?\w+::[^\n]{1,400}|[\w@.$]+)")
_LIBRARY = when_used(
    r"ould not (?:load|locate|find) (?:(?:dynamic )?library |module )?[`'\x22]?"
    r"(?P<named>[\w+-]{2,60}\.(?:dll|so(?:\.\d+)*))"
    r"|(?P<library>[\w+.-]+\.so(?:\.[\d.]+)?): cannot open shared object"
    r"|Unable to load any of \{(?P<first>[\w+.-]+)"
)
_CXX_FILE = when_used(r"\(?(?P<path>[\w./\\:~+-]{2,300}\.(?:h|hpp|cuh|cu|cpp|cc)):\d+\)?")
_NUMBER = r"[ :=]{1,3}(?P<value>\d{1,4})\b"
_CUDA = r"CUDA (?:[Vv]ersion )?(?:>= ?)?(?P<value>\d{1,2}\.\d{1,2})"
_IMPORTER = when_used(r"Failed to import (?P<value>[\w.]{2,80}) because")
_FROM_THE_TOP = when_used(
    r"Failed to import transformers\.(?!models\b)[^\n]{1,400}\s+cannot import name \S+ from \W?transformers\b(?!\.)"
)
#: Python's words for a call that it refused before the function began.
_REFUSED_CALL = when_used(
    r"^TypeError: .{0,200}\(\) (?:got (?:an unexpected keyword|multiple values)|takes (?:from )?\d"
    r"|missing \d+ required)"
)
#: Names in a message: of several expressions the first that matches.
_NAMED = tuple(
    (attribute, when_used(pattern))
    for attribute, pattern in (
        (
            "head_dim",
            rf"\b(?:got|given|[Uu]nsupported) (?:head[-_ ]?(?:dim(?:ension)?|size)s?|embed_dim){_NUMBER}",
        ),
        ("head_dim", rf"head[-_ ]?(?:dim(?:ension)?|size)[^\n]{{1,120}}\b(?:got|found|received|was|but is){_NUMBER}"),
        ("head_dim", rf"\bhead[-_ ]?(?:dim(?:ension)?|size)s?(?:_qk|_vo?|_q)?(?: is| of)?{_NUMBER}"),
        ("cuda_needed", rf"\b{_CUDA}\+? (?:or|and) (?:higher|later|above|newer|greater)"),
        ("cuda_needed", rf"\b(?:requires?|needs?|at least|only supported on) {_CUDA}"),
        ("model", r"\b(?P<value>[A-Z]\w{1,60}(?:Model|LM|Classification|Generation|Answering|Decoder|Encoder))\b"),
        ("importer", _IMPORTER.pattern),
        ("module", r"No module named '?(?P<value>[\w.]{2,80})'?"),
    )
)
_DTYPES = {
    "float": "float32", "Float": "float32", "float32": "float32", "fp32": "float32",
    "half": "float16", "Half": "float16", "float16": "float16", "fp16": "float16",
    "BFloat16": "bfloat16", "bfloat16": "bfloat16", "bf16": "bfloat16", "Double": "float64", "double": "float64",
    "float64": "float64", "Byte": "uint8", "uint8": "uint8", "Char": "int8", "int8": "int8", "Long": "int64",
    "int64": "int64", "long int": "int64", "Int": "int32", "int32": "int32", "Bool": "bool",
    "Float8_e4m3fn": "float8_e4m3fn", "float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2",
    "float8_e5m2": "float8_e5m2", "unsigned char": "uint8", "signed char": "int8", "short int": "int16",
}  # fmt: skip
_DTYPE = when_used(rf"(?<![\w/])(?:torch\.|c10::)?({'|'.join(sorted(_DTYPES, key=len, reverse=True))})\b(?![./(])")
#: What a kernel was given, not what it takes.
_GIVEN = when_used(
    r"(?:failed to dispatch (?:with |for )?(?:data ?type|dtype)|[Uu]nsupported (?:(?:input|query|data) ?)?d?type"
    r"|\bgot (?:unsupported |input |query )?d?type)[ :=]{1,3}['\"]?(?:torch\.|c10::)?(?P<dtype>\w{4,14})\b"
)
#: vLLM's own words at its start.
_FREE = when_used(r"Free memory on device[^\n(]{0,40}\((?P<free>\d{1,4}\.\d+)/(?P<whole>\d{1,4}\.\d+) GiB\)")
#: torch's words since 2.1, and those of before.
_BEYOND = when_used(
    r"Tried to allocate (?P<asked>\d{1,5}\.\d+) GiB\b[^\n;]{0,40}"
    r"(?:total capaci?ty of (?P<whole>\d{1,4}\.\d+) GiB|; (?P<older>\d{1,4}\.\d+) GiB total capacity)"
)
#: More than any one GPU has, whatever the message says of this one.
_BEYOND_ALL = when_used(r"Tried to allocate (?P<asked>(?:3\d\d|[4-9]\d\d|\d{4,5})\.\d+) GiB\b")
_WITHOUT_FLASH = when_used(r"\b(?P<model>[A-Z]\w+) does not support [Ff]lash ?[Aa]ttention")
_TRANSFORMERS = FactName.parse("package.transformers.version")
_TORCH = FactName.parse("torch.version")
#: Frames in which an image autoencoder codes or decodes, or a trainer caches what it codes.
_VAE = when_used(
    r"(?:^|[/\\_. ])(?:vae|VAE|VAE(?:De|En)code\w{0,20}|autoencoder\w*|AutoencoderKL|first_stage_model"
    r"|cache_(?:batch_)?latents)(?:_|\b)"
)
#: A model's own code where transformers copied it; between the model's name and the file may stand the revision.
_HUB_CODE = when_used(r"/transformers_modules/(?P<model>[^\n\"':]{1,120}?)(?:/[0-9a-f]{7,40})?/\w+\.py")
_THREADS = when_used(r"nn[/\\]parallel[/\\](?:data_parallel|parallel_apply)\.py")
_SUBJECT, _AT_USE = FactName.parse("subject.package"), FactName.parse("log.built_at_use")
_ENGINE = FactName.parse(ENGINE)
#: What a package's build compiles of another's source; its compiler names that one's files.
_CARRIED_BY = {"xformers": "flash-attn"}
_BINARY = when_used(r"(?P<path>[\w./~+-]{2,400}\.(?:so|pyd))\b")


def of_match(match: Match, log: str, around: FactSet) -> Iterator[Fact]:
    """The facts from the pattern's groups, and those from the unit itself; `around`: those of the whole log."""
    groups = dict(match.told)
    named = set()
    for group, name in match.pattern.extracts:
        if group in groups:
            made = fact(name, groups[group], log, match.line)
            if made is not None:
                named.add(made.name)
                yield made
    model = _WITHOUT_FLASH.search(match.unit.message)
    since = flash_since(model["model"], around.text(_TRANSFORMERS)) if model else None
    if since:
        yield _log_fact("attention_since", since, log, match.line)
    if match.reasons:
        yield _log_fact("reasons", match.reasons, log, match.line)
    for attribute, value in beside_those_listed(match.unit.text):
        yield _log_fact(attribute, value, log, match.line)
    # What a pattern reads as the module is what its recipe speaks of: `moon`, where the message has `moon.dark`.
    told = of_unit(match.unit, log, around.text(_AT_USE), around.text(_ENGINE))
    carried = None if match.unit.frames else _CARRIED_BY.get(around.text(_SUBJECT) or "")
    for one in told:
        is_carried = carried is not None and one.name == _SUBJECT and one.state == Known(carried)
        if one.name not in named and not is_carried:
            yield one
    yield from _of_a_name(match.unit, log, around)
    symbol, torch = _SYMBOL.search(match.unit.message), around.text(_TORCH)
    if symbol and torch and has_symbol(torch, symbol["symbol"]):
        yield _log_fact("symbol_is_of_torch", True, log, match.line)


def _of_a_name(unit: Unit, log: str, around: FactSet) -> Iterator[Fact]:
    """The releases that have the Python name which the message misses, and who asks for it."""
    calls = "\n".join(line.text for line in unit.lines[: unit.message_at])
    owners = [name for _, name in _owners(unit)]
    found = name_wanted(with_class(unit.message, calls), owners, around, calls)
    if found is None:
        if unknown := type_of_no_release(unit.message, calls):
            yield _log_fact("type_of_no_release", unknown, log, unit.message_line)
        return
    asking = _asking(unit)
    # Without a traceback the engine whose log it is asks, but not for a name of its own: who wants that is cut off.
    span, engine = found.span, around.text(_ENGINE)
    asks = distribution_of(asking) if asking else None if unit.frames or engine == span.distribution else engine
    within = asks == span.distribution and not found.patched
    asks = None if found.patched and asks == span.distribution else asks
    for attribute, value in (
        ("name_wanted", found.name),
        ("name_parameter", found.name.partition(" of ")[0] if " of " in found.name else None),
        ("name_new", new_name(span.distribution, found.name)),
        ("name_around", span.around or None),
        ("name_left_torch", (span.distribution == "torch" and span.until is not None) or None),
        ("name_package", span.distribution),
        ("name_since", span.since),
        ("name_until", span.until),
        ("name_range", span.range),
        ("name_releases", span.near if asks else span.specifier),
        ("name_asked_by", None if within else asks),
        ("name_within", within or None),
        ("name_claimed", found.claimed),
    ):
        if value is not None:
            yield _log_fact(attribute, value, log, unit.message_line)
        elif attribute in ("name_since", "name_until"):
            yield Fact(
                name=FactName("log", "", attribute),
                state=Absent("the name is in the releases before, or after, as well"),
                how=f"line {unit.message_line} of {log}",
                origin=Origin.DERIVED,
            )


def _asking(unit: Unit) -> str | None:
    """The import name of the package whose code asks for a name; None for a person's own code, or where none is named.

    The innermost frame asks, but for those that only look an attribute up or pass a call on.
    """
    importer = _IMPORTER.search(unit.message)
    if importer is None:
        asking = [path for path, _ in unit.frames if not PASSES_ON.search(path)]
        return owner(asking[-1]) or None if asking else None
    if _FROM_THE_TOP.search(unit.message):
        return "peft"  # transformers itself imports from its modules: what asks at its top is what it imports
    package, *parts = importer["value"].split(".")
    if parts and any(parts[-1] == known.module for known in PACKAGES):
        return parts[-1]  # diffusers.loaders.peft imports peft
    # Of transformers.trainer and the like it may be a package that they import.
    return package if "models" in parts or package != "transformers" else None


def of_unit(unit: Unit, log: str, built_at_use: str | None = None, engine: str | None = None) -> Iterator[Fact]:
    """The `log.*` facts of one unit."""
    text = unit.text
    yield from _of_calls(unit, log)
    roles = fp32_operands(text)
    if roles is not None:
        told = _SDPA.search(text) or _ROLE.search(text)
        yield _log_fact("fp32_operands", roles, log, _line_of(unit, text, told))
    owners = _owners(unit)
    if owners:
        yield _log_fact("owners", tuple(dict.fromkeys(name for _, name in owners)), log, unit.first)
        # Who called wrongly; nobody is told where that is code of the person's own.
        refused = unit.frames and _REFUSED_CALL.search(unit.message)
        caller = _asking(unit) if refused else owners[-1][1]
        path = next((path for path, name in reversed(owners) if name == caller), None)
        if caller and path is not None:
            where = max((line.number for line in unit.lines if path in line.text), default=unit.first)
            yield _log_fact("innermost_owner", caller, log, where)
    symbol = _SYMBOL.search(text)
    if symbol:
        yield _log_fact("symbol", symbol["symbol"], log, _line_of(unit, text, symbol))
    library = _LIBRARY.search(text)
    if library:
        yield _log_fact(
            "library", library["named"] or library["library"] or library["first"], log, _line_of(unit, text, library)
        )
    message = unit.message
    named: set[str] = set()
    for attribute, pattern in _NAMED:
        found = None if attribute in named else pattern.search(message)
        made = found and fact(FactName("log", "", attribute), found["value"], log, unit.message_line)
        if made:
            named.add(attribute)
            yield made
    for attribute, of_torch in (*torch_not_found(message), *held_by_others(message)):
        yield _log_fact(attribute, of_torch, log, unit.message_line)
    if went_on(unit):
        yield _log_fact("went_on", True, log, unit.message_line)
    dtypes = tuple(dict.fromkeys(_DTYPES[name] for name in _DTYPE.findall(message)))
    if dtypes:
        yield _log_fact("dtypes", dtypes, log, unit.message_line)
    if (given := _GIVEN.search(message)) and given["dtype"] in _DTYPES:
        yield _log_fact("dtype_given", _DTYPES[given["dtype"]], log, unit.message_line)
    if free := _FREE.search(message):
        share = int(100 * float(free["free"]) / max(float(free["whole"]), 0.01)) - 2
        if 0 < share < 98:
            yield _log_fact("free_share", f"0.{share:02}", log, unit.message_line)
    if beyond := _beyond_gpu(message):
        yield _log_fact("beyond_gpu", f"{beyond} GiB", log, unit.message_line)
    if advice := advice_in(message):
        yield _log_fact("advice", advice, log, unit.message_line)
    if says := refuser(message, [path for path, _ in unit.frames], [name for _, name in owners]):
        yield _log_fact("refuser", says, log, unit.message_line)
    if divisors := divides_by(message):
        yield _log_fact("divides_by", divisors, log, unit.message_line)
    if "transformers_modules" in text and (models := _HUB_CODE.findall(text.replace("\\", "/"))):
        made = models[-1].replace("_dot_", ".").replace("_hyphen_", "-")
        yield _log_fact("hub_model", made, log, unit.first)
    if plugin := plugin_of(unit):
        yield _log_fact("plugin", plugin[0], log, unit.first)
        if plugin[1]:
            yield _log_fact("plugin_folder", plugin[1], log, unit.first)
    subject = subject_of(unit, built_at_use, engine if is_its(engine, unit.frames, owners) else None)
    if subject:
        made = fact(_SUBJECT, subject, log, unit.message_line)
        assert made is not None
        yield made
    if compiled_in_checkout(unit):
        yield _log_fact("compiled_in_checkout", True, log, unit.message_line)


def _beyond_gpu(message: str) -> str | None:
    if asked := _BEYOND.search(message):
        return asked["asked"] if float(asked["asked"]) > float(asked["whole"] or asked["older"]) else None
    most = _BEYOND_ALL.search(message)
    return most and most["asked"]


def _of_calls(unit: Unit, log: str) -> Iterator[Fact]:
    """Whose code failed, while it did what."""
    if is_own_code(path for path, _ in unit.frames):
        yield _log_fact("own_code", True, log, unit.first)
    if own := raised_in(unit.frames):
        yield _log_fact("raised_in", own, log, unit.first)
    if phase := phase_in(unit.text):
        yield _log_fact("phase", phase, log, unit.first)
    if _VAE.search(unit.text):
        yield _log_fact("in_vae", True, log, unit.first)
    if any(_THREADS.search(path) for path, _ in unit.frames):
        yield _log_fact("data_parallel", True, log, unit.first)
    if is_keys_twice(unit.message):
        yield _log_fact("keys_twice", True, log, unit.message_line)
    if is_longer_again(unit.text):
        yield _log_fact("recomputed_longer", True, log, unit.message_line)
    if is_part_again(unit.text):
        yield _log_fact("recomputed_part", True, log, unit.message_line)
    if heads := heads_laid_out(unit.text):
        yield _log_fact("heads_laid_out", heads, log, unit.message_line)


def _line_of(unit: Unit, text: str, found: re.Match[str] | None) -> int:
    """The line of the log in which the match in the unit's text begins."""
    return unit.lines[text.count("\n", 0, found.start())].number if found else unit.first


def fp32_operands(text: str) -> tuple[str, ...] | None:
    """The operands among q, k and v that a message reports as float32; None unless it names the dtypes of at
    least two.
    """
    found = _SDPA.search(text)
    if found:
        dtypes = {role: found[role] for role in "qkv"}
    else:
        dtypes = {match["role"][0]: match["dtype"] for match in _ROLE.finditer(text)}
        if len(dtypes) < 2:
            return None
    return tuple(role for role in "qkv" if role in dtypes and _FLOAT.match(dtypes[role].rstrip(".,")))


def _owners(unit: Unit) -> list[tuple[str, str]]:
    """Path and owner of each file that the unit names, the innermost last."""
    message = unit.message
    paths = [path for path, _ in unit.frames]
    paths += [whole_name(found["path"], message) for found in _BINARY.finditer(message)]
    paths += [found["path"] for found in _CXX_FILE.finditer(message)]
    return [(path, name) for path in paths if (name := owner(path))]


def _log_fact(attribute: str, value: Value, log: str, line: int) -> Fact:
    return Fact(
        name=FactName("log", "", attribute), state=Known(value), how=f"line {line} of {log}", origin=Origin.DERIVED
    )
