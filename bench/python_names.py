"""What one Python file binds and calls by name, read from its syntax tree; nothing is imported.

What is read is a dictionary that JSON can hold, so that it is kept from one run to the next:
`defs` top-level names that the file makes, `maybe` words that its __getattr__ may answer to, `gone` names that it says
are gone, `open` whether its `__all__` holds names that do not stand there,
`imports` {name: [level, module, name there or ""]}, `stars` [[level, module]], `typing` names that it binds for type
checkers only, `lazy` names that it tells a lazy module of, `all` what stands in `__all__`, `stubbed` whether it gives
the names of its stub, `classes` {name: {bases, names, fields (of a dataclass) or null}},
`functions` {qualified name: [parameters, whether it takes any others]}.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

#: Tables of names that a module still gives, with a message: {name: (value, message)}.
_OF_VALUES = ("__deprecated_attrs__", "_deprecations")
#: What packages call the tables that their lazy modules look names up in.
_LAZY_TABLES = {
    "_import_structure",
    "import_structure",
    "_SUBMOD_ATTRS",
    "MODULE_ATTRS",
    "_LAZY_ATTRS",
    "_LAZY_IMPORTS",
    *_OF_VALUES,
}
#: What packages call the tables of names that are gone: their modules look them up to say so.
GONE_TABLES = re.compile(r"expired|former|removed|^_deprecations$", re.IGNORECASE)
_KWARGS_READERS = {"pop", "get", "setdefault"}

Names = dict[str, Any]


def read_file(source: bytes) -> Names | None:
    """The names of a file; None where it is no Python that this Python can read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found: Names = {
        "defs": [], "imports": {}, "stars": [], "typing": [], "lazy": [], "all": [], "classes": {}, "functions": {},
        "maybe": [], "gone": [],
    }  # fmt: skip
    tables = _lists_of_pairs(tree.body)
    for statement, for_typing in _statements(tree.body):
        if for_typing:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                found["typing"] += [one.asname or one.name for one in statement.names if one.name != "*"]
        else:
            _read_statement(statement, found, tables)
    found["defs"] += [name for one in tree.body if isinstance(one, ast.For) for name in _set_in_loop(one, tree.body)]
    if "__getattr__" in found["defs"]:
        found["maybe"] = _words(tree.body)
    for key in ("defs", "typing", "lazy", "all", "maybe", "gone"):
        found[key] = sorted({one for one in found[key] if one.isidentifier()})
    return {key: value for key, value in found.items() if value}


def _statements(body: Iterable[ast.stmt], for_typing: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements that run at import, those within if, try and with as well; and whether for type checkers alone."""
    for one in body:
        if isinstance(one, ast.If):
            typing_only = "TYPE_CHECKING" in ast.unparse(one.test)
            yield from _statements(one.body, for_typing or typing_only)
            yield from _statements(one.orelse, for_typing)
        elif isinstance(one, ast.Try):
            for part in (one.body, *(handler.body for handler in one.handlers), one.orelse, one.finalbody):
                yield from _statements(part, for_typing)
        elif isinstance(one, (ast.With, ast.For, ast.While)):
            yield from _statements(one.body, for_typing)
        else:
            yield one, for_typing


def _read_statement(one: ast.stmt, found: Names, pairs: dict[str, list[ast.List]]) -> None:
    if isinstance(one, ast.ImportFrom):
        for alias in one.names:
            if alias.name == "*":
                found["stars"].append([one.level, one.module or ""])
            else:
                found["imports"][alias.asname or alias.name] = [one.level, one.module or "", alias.name]
    elif isinstance(one, ast.Import):
        for alias in one.names:
            bound = alias.asname or alias.name.partition(".")[0]
            found["imports"][bound] = [0, alias.name if alias.asname else bound, ""]
    elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
        found["defs"].append(one.name)
        _add_function(one, one.name, found)
    elif isinstance(one, ast.ClassDef):
        found["defs"].append(one.name)
        _add_class(one, found)
    elif isinstance(one, ast.TypeAlias if hasattr(ast, "TypeAlias") else ()):
        found["defs"].append(one.name.id)  # type: ignore[attr-defined]
    elif isinstance(one, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = one.targets if isinstance(one, ast.Assign) else [one.target]
        for target in targets:
            table = _root_name(target)
            if table == "__all__":
                found["all"] += _strings(one.value)
                if one.value is not None and any(map(_is_computed, ast.walk(one.value))):
                    found["open"] = True
            elif table in _LAZY_TABLES:
                found["lazy"] += _strings(one.value) if table not in _OF_VALUES else _live(target, one.value)
            if GONE_TABLES.search(table):
                found["gone"] += _gone(table, one.value, pairs)
        if isinstance(one.value, ast.Call):
            _read_lazy_loader(one.value, found)
        found["defs"] += [name for target in targets for name in _bound(target)]
    elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and isinstance(one.value.func, ast.Attribute):
        table = _root_name(one.value.func)
        if table == "__all__" or table in _LAZY_TABLES:
            key = "all" if table == "__all__" else "lazy"
            if table not in _OF_VALUES:
                found[key] += [text for argument in one.value.args for text in _strings(argument)]
            comprehensions = (argument for argument in one.value.args if isinstance(argument, ast.DictComp))
            found[key] += [name for each in comprehensions for name in _of_comprehension(each, pairs)]


def _is_computed(node: ast.AST) -> bool:
    """Whether a part of an __all__ is no list that is written out, as another module's __all__ or dir()."""
    return isinstance(node, (ast.Call, ast.ListComp)) or (isinstance(node, ast.Attribute) and node.attr == "__all__")


def _live(target: ast.expr, value: ast.expr | None) -> list[str]:
    """The names of a table of what is still given, with a message; not those without a value."""
    if isinstance(target, ast.Subscript):
        return _strings(target.slice)
    return [name for name, row in _rows(value) if not _gives_none(row)]


def _gone(table: str, value: ast.expr | None, pairs: dict[str, list[ast.List]]) -> list[str]:
    """The names of a table of what is gone."""
    if table in _OF_VALUES:
        return [name for name, row in _rows(value) if _gives_none(row)]
    if isinstance(value, ast.DictComp):
        return _of_comprehension(value, pairs)
    return [name for name, _ in _rows(value)] if isinstance(value, ast.Dict) else _strings(value)


def _rows(table: ast.expr | None) -> list[tuple[str, ast.expr]]:
    rows = zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
    return [(name, row) for key, row in rows if key is not None for name in _strings(key)]


def _of_comprehension(made: ast.DictComp, pairs: dict[str, list[ast.List]]) -> list[str]:
    """The first of each pair: {name: … for name, … in a list of pairs}."""
    over = made.generators[0].iter
    before = [one for one in pairs.get(over.id, ()) if one.lineno < made.lineno] if isinstance(over, ast.Name) else []
    every = before[-1].elts if before else []
    return [text for pair in every if isinstance(pair, ast.Tuple) for text in _strings(pair.elts[0])]


def _gives_none(row: ast.expr) -> bool:
    last = row.elts[-1] if isinstance(row, ast.Tuple) and row.elts else row
    return isinstance(last, ast.Constant) and last.value is None


def _lists_of_pairs(body: Iterable[ast.stmt]) -> dict[str, list[ast.List]]:
    """Name -> the lists of tuples that a file assigns to it, in order."""
    found: dict[str, list[ast.List]] = {}
    for one, _ in _statements(body):
        if (
            isinstance(one, ast.Assign)
            and isinstance(one.value, ast.List)
            and isinstance(one.targets[0], ast.Name)
            and all(isinstance(pair, ast.Tuple) and pair.elts for pair in one.value.elts)
        ):
            found.setdefault(one.targets[0].id, []).append(one.value)
    return found


def _set_in_loop(loop: ast.For, body: list[ast.stmt]) -> list[str]:
    """Names that a loop over strings sets: for name in names: globals()[name] = …"""
    sets = any(
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value) in {"globals()", "locals()", "vars()"}
        and ast.unparse(node.slice) == ast.unparse(loop.target)
        for node in ast.walk(loop)
    )
    if not sets:
        return []
    if not isinstance(loop.iter, ast.Name):
        return _strings(loop.iter)
    assigned = [one.value for one in body if isinstance(one, ast.Assign) and loop.iter.id in _bound(one.targets[0])]
    return [text for value in assigned for text in _strings(value)]


def _read_lazy_loader(call: ast.Call, found: Names) -> None:
    """What lazy_loader's attach(name, submodules, {module: names}) and attach_stub(name, file) are told."""
    called = ast.unparse(call.func).rpartition(".")[2]
    if called == "attach_stub":
        found["stubbed"] = True
    elif called == "attach":
        for argument in (*call.args, *(one.value for one in call.keywords)):
            if isinstance(argument, ast.Dict):
                found["lazy"] += [text for key in argument.keys for text in _strings(key)]
            found["lazy"] += _strings(argument)


def _words(body: Iterable[ast.stmt]) -> list[str]:
    """Every string of a file, and every name that it or a class of it binds, but for those in tables of names that are
    gone: its __getattr__ may answer to them.
    """
    found: set[str] = set()
    gone: set[str] = set()
    for node in (node for one in body for node in ast.walk(one)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(name for target in targets for name in _bound(target))
            if any(GONE_TABLES.search(_root_name(target)) for target in targets):
                gone.update(_strings(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return sorted(found - gone)


def _root_name(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _strings(node: ast.expr | None) -> list[str]:
    if isinstance(node, ast.Dict):  # module -> its names; or name -> its place
        of_lists = [
            text for value in node.values if isinstance(value, (ast.List, ast.Tuple)) for text in _strings(value)
        ]
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        return of_lists or keys
    return [
        one.value
        for one in (ast.walk(node) if node is not None else ())
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def _bound(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for one in target.elts for name in _bound(one)]
    return []


def _add_function(one: ast.FunctionDef | ast.AsyncFunctionDef, name: str, found: Names) -> None:
    every = one.args
    named = {each.arg for each in (*every.posonlyargs, *every.args, *every.kwonlyargs)} - {"self", "cls"}
    for decorator in one.decorator_list:  # deprecate_kwarg("old", new_name="new") takes the old one still
        if isinstance(decorator, ast.Call) and "deprecat" in ast.unparse(decorator.func):
            named.update(text for argument in decorator.args for text in _strings(argument) if text.isidentifier())
    if every.kwarg is not None:
        for call in ast.walk(one):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in _KWARGS_READERS
                and isinstance(call.func.value, ast.Name)
                and call.func.value.id == every.kwarg.arg
                and call.args
                and isinstance(call.args[0], ast.Constant)
                and isinstance(call.args[0].value, str)
            ):
                named.add(call.args[0].value)
    before, open_before = found["functions"].get(name, ([], False))
    found["functions"][name] = [sorted({*before, *named}), open_before or every.kwarg is not None]


def _add_class(one: ast.ClassDef, found: Names) -> None:
    names: set[str] = set()
    fields: list[str] = []
    decorators = [ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in one.decorator_list]
    # transformers makes a dataclass of each subclass of its PreTrainedConfig from 5.4 on.
    is_dataclass = any(each.rpartition(".")[2] in {"dataclass", "config", "strict"} for each in decorators)
    for statement, for_typing in _statements(one.body):
        if for_typing:
            continue
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(statement.name)
            _add_function(statement, f"{one.name}.{statement.name}", found)
            names.update(_assigned_to_self(statement))
        elif isinstance(statement, ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
            fields.append(statement.target.id)
        elif isinstance(statement, ast.Assign):
            names.update(name for target in statement.targets for name in _bound(target))
            if any(_root_name(target) == "attribute_map" for target in statement.targets) and isinstance(
                statement.value, ast.Dict
            ):
                names.update(
                    key.value
                    for key in statement.value.keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                )
    before = found["classes"].get(one.name, {"names": []})
    found["classes"][one.name] = {
        "bases": [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in one.bases],
        "names": sorted({*before["names"], *names}),
        "fields": fields if is_dataclass else None,
    }


def _assigned_to_self(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr
