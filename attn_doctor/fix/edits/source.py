"""`edit-source`: casts q, k or v at the kernel call that a trace named. The parser finds the place, never a text
search.

Only at the call itself, and only in the user's own project: installed packages are not edited.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from attn_doctor.fix.refusal import Refused
from attn_doctor.model.dtypes import HALVES
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.outcomes import BROKEN
from attn_doctor.model.plans import Splice
from attn_doctor.probe.packages.keyword_calls import NotThere, Parsed, parsed
from attn_doctor.quick_dataclasses import dataclass

#: Role -> keyword names of that operand in attention functions; positional arguments are in the order of the roles.
_NAMES = {"q": ("q", "query"), "k": ("k", "key"), "v": ("v", "value")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A broken attention call, from a trace."""

    file: str
    line: int
    name: str
    dtypes: tuple[tuple[str, str], ...]
    """(role, dtype) of q, k and v."""


def calls(facts: FactSet, promotions: Iterable[str]) -> tuple[Call, ...]:
    """The broken calls that these promotions reached. Raises Refused when the trace does not contain them."""
    kernels = {facts.text(FactName("promotion", one, "kernel")) for one in promotions}
    found = []
    for number in facts.subjects("attention"):
        own = f"attention.{number}."
        name, place = facts.text(own + "name"), facts.text(own + "place")
        match = re.fullmatch(r"(.+):(\d+)", place or "")
        if facts.text(own + "verdict") not in BROKEN or name not in kernels or name is None or match is None:
            continue
        dtypes = tuple((role, facts.text(f"{own}{role}_dtype") or "") for role in _NAMES)
        found.append(Call(file=match[1], line=int(match[2]), name=name, dtypes=dtypes))
    if not found:
        raise Refused("the trace names no line of the call that was reached")
    return tuple(dict.fromkeys(found))


def splices(content: bytes, call: Call) -> tuple[Splice, ...]:
    """Adds casts of the wide operands to the dtype of a half-precision one. Raises Refused."""
    source = read(content, call.file)
    node = call_at(source.tree, call)
    operands = _operands(node)
    half = [role for role, dtype in call.dtypes if dtype in HALVES]
    wide = [role for role, dtype in call.dtypes if dtype == "float32"]
    if not half or not wide:
        raise Refused("none of q, k and v is in half precision: a cast here would hide what is wrong before")
    if len({dtype for _, dtype in call.dtypes if dtype in HALVES}) > 1:
        raise Refused("float16 and bfloat16 meet at this call: which of them is meant is not for a program to say")
    reference = next((role for role in ("v", "k", "q") if role in half and is_name(operands.get(role))), None)
    if reference is None:
        raise Refused("the operand in half precision has no name at the call")
    kind = ast.unparse(operands[reference])
    found = []
    for role in wide:
        operand = operands.get(role)
        if operand is None:
            raise Refused(f"the call does not name its {role}")
        start, end = source.span(operand)
        text = content[start:end].decode()
        plain = isinstance(operand, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        found.append(Splice(start=start, end=end, text=f"{text if plain else f'({text})'}.to({kind}.dtype)"))
    return tuple(found)


def read(content: bytes, file: str) -> Parsed:
    """Parses the source. Raises Refused."""
    try:
        return parsed(content)
    except NotThere as error:
        raise Refused(f"{file}: {error}") from None


def check(content: bytes, file: str) -> None:
    """Raises Refused when the edited file is not valid Python."""
    try:
        compile(content, file, "exec", dont_inherit=True, flags=ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError) as error:
        raise Refused(f"the edit would leave {file} broken: {error}") from None


def call_at(tree: ast.AST, call: Call) -> ast.Call:
    """The only call of this name on that line. Raises Refused."""
    last = call.name.rpartition(".")[2]
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.lineno <= call.line <= (node.end_lineno or node.lineno)
        and (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")) == last
    ]
    if len(found) != 1:
        raise Refused(f"{call.file}:{call.line} holds {len(found)} calls named {last}, where one was expected")
    return found[0]


def _operands(node: ast.Call) -> dict[str, ast.expr]:
    if any(isinstance(argument, ast.Starred) for argument in node.args[:3]):
        raise Refused("the call unpacks its operands")
    found = dict(zip(_NAMES, node.args, strict=False))
    for keyword in node.keywords:
        for role, names in _NAMES.items():
            if keyword.arg in names:
                found[role] = keyword.value
    return found


def is_name(node: ast.expr | None) -> bool:
    """True for a plain or dotted name: reading it twice has no side effects."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
