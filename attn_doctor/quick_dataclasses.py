"""The standard library's dataclasses, made in a fifth of the time: a start makes a hundred of them.

`dataclasses.dataclass` compiles seven methods for each class, one by one (0.6 ms a class). Here a frozen class gets
one compiled method, `__init__`, and shares the others with all classes; what the standard library's own functions ask
for is made by the standard library when they first ask, and only then is its module imported. Every name
means what it means there, and type checkers are shown the originals; tests/model/test_quick_dataclasses.py holds both
against each other, for every class of ours.

A class that is not frozen, writes such a method itself or has a field that `__init__` does not take is the standard
library's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import MISSING as MISSING
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import is_dataclass as is_dataclass
    from dataclasses import replace as replace
else:
    from operator import attrgetter, ge, gt, le, lt

    #: The default of a field without one: the standard library's where it made the class.
    MISSING = _NONE = object()
    _set = object.__setattr__

    def asdict(instance):
        """As `dataclasses.asdict`; what is no record, list, tuple or dict is not copied."""
        return {one.name: _plain_value(getattr(instance, one.name)) for one in fields(instance)}

    def _plain_value(value):
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        if isinstance(value, (list, tuple)):
            return type(value)([_plain_value(one) for one in value])
        if isinstance(value, dict):
            return {key: _plain_value(one) for key, one in value.items()}
        return value

    class _Described:
        """What `fields` tells of a field."""

        __slots__ = ("compare", "default", "default_factory", "metadata", "name", "repr", "type")

        def __init__(self, name, type, default, default_factory, metadata, repr, compare):  # noqa: A002
            self.name, self.type, self.metadata, self.repr, self.compare = name, type, metadata, repr, compare
            self.default, self.default_factory = default, default_factory

    _described = {}

    def fields(instance_or_class):
        """As `dataclasses.fields`, with `MISSING` of this module."""
        cls = instance_or_class if isinstance(instance_or_class, type) else type(instance_or_class)
        if cls not in _described:
            _described[cls] = tuple(_of_ours(cls) if "_recorded" in cls.__dict__ else _of_theirs(cls))
        return _described[cls]

    def _of_ours(cls):
        recorded = {}
        for base in reversed(cls.__mro__):
            recorded.update(base.__dict__.get("_recorded", {}))
        for name, (default, _, kind) in recorded.items():
            given = default if isinstance(default, _Field) else _Field(default, _NONE, {})
            told = (given.options.get("metadata", {}), given.options.get("repr", True), _compared(given))
            yield _Described(name, kind, given.default, given.default_factory, *told)

    def _of_theirs(cls):
        import dataclasses

        for one in dataclasses.fields(cls):
            defaults = (_NONE if had is dataclasses.MISSING else had for had in (one.default, one.default_factory))
            yield _Described(one.name, one.type, *defaults, one.metadata, one.repr, one.compare)

    def is_dataclass(value):
        """As `dataclasses.is_dataclass`."""
        cls = value if isinstance(value, type) else type(value)
        return hasattr(cls, "_recorded") or hasattr(cls, "__dataclass_fields__")

    def replace(instance, /, **changes):
        """As `dataclasses.replace`."""
        if "_recorded" in type(instance).__dict__:
            return type(instance)(**{one.name: getattr(instance, one.name) for one in fields(instance)} | changes)
        import dataclasses

        return dataclasses.replace(instance, **changes)

    class _Field:
        """The arguments of `field(...)`, until the class is made."""

        __slots__ = ("default", "default_factory", "options")

        def __init__(self, default, default_factory, options):
            self.default = default
            self.default_factory = default_factory
            self.options = options

        @property
        def plain(self):
            """True for an argument of `__init__` that is hashed exactly if it is compared."""
            return not self.options.keys() - {"repr", "metadata", "compare"}

        def theirs(self):
            """The same as the standard library has it."""
            import dataclasses

            given = {"default": self.default, "default_factory": self.default_factory}
            return dataclasses.field(**{k: v for k, v in given.items() if v is not _NONE}, **self.options)

    def field(*, default=_NONE, default_factory=_NONE, **options):
        """As `dataclasses.field`."""
        return _Field(default, default_factory, options)

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, order=False, **others):
        """As `dataclasses.dataclass`."""

        def made(cls):
            if frozen and not others and _plain(cls):
                return _made(cls, slots=slots, kw_only=kw_only, order=order)
            import dataclasses

            for name, value in list(vars(cls).items()):
                if isinstance(value, _Field):
                    setattr(cls, name, value.theirs())
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only, order=order, **others)

        return made if cls is None else made(cls)

    def _own(cls):
        """Annotations of the class's own fields, by name."""
        return {
            name: kind
            for name, kind in cls.__annotations__.items()
            if not str(kind).startswith(("ClassVar", "typing.ClassVar"))
        }

    def _plain(cls):
        bases_are_ours = all(
            "_recorded" in base.__dict__ or "__dataclass_fields__" not in base.__dict__ for base in cls.__mro__[1:]
        )
        return (
            bases_are_ours
            and not cls.__dict__.keys() & {"__init__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__slots__"}
            and all(not isinstance(value, _Field) or value.plain for value in vars(cls).values())
            and not any("InitVar" in str(kind) or "KW_ONLY" in str(kind) for kind in _own(cls).values())
        )

    def _made(cls, *, slots, kw_only, order):
        own = {name: (cls.__dict__.get(name, _NONE), kw_only, kind) for name, kind in _own(cls).items()}
        recorded = {}
        for base in reversed(cls.__mro__[1:]):
            recorded.update(base.__dict__.get("_recorded", {}))
        recorded.update(own)
        by_place = tuple(name for name, (_, keyword, _) in recorded.items() if not keyword)
        given = {
            "_recorded": own,
            "__dataclass_fields__": _Twin("__dataclass_fields__", cls, own, kw_only),
            "__dataclass_params__": _Twin("__dataclass_params__", cls, own, kw_only),
            "__match_args__": by_place,
            "__init__": _init(cls, recorded, by_place),
            "__eq__": _eq,
            "__hash__": _hash,
            "__setattr__": _refuse_set,
            "__delattr__": _refuse_del,
            "_values": _values([name for name, (default, _, _) in recorded.items() if _compared(default)]),
            **(_ORDER if order else {}),
        }
        if "__repr__" not in cls.__dict__:
            given["__repr__"] = _repr
        if not slots:
            for name, value in given.items():
                setattr(cls, name, value)
            for name, (default, _, _) in own.items():
                if isinstance(default, _Field):
                    delattr(cls, name) if default.default is _NONE else setattr(cls, name, default.default)
            return cls
        inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
        body = {name: value for name, value in vars(cls).items() if name not in own}
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        state = {"__getstate__": _getstate, "__setstate__": _setstate}
        names = tuple(name for name in own if name not in inherited)
        again = type(cls)(cls.__name__, cls.__bases__, {**body, **given, **state, "__slots__": names})
        again.__qualname__ = cls.__qualname__
        return again

    def _init(cls, recorded, by_place):
        order = (*by_place, *(name for name in recorded if name not in by_place))
        defaults, body, known = {}, [], {"_set": _set, "_NONE": _NONE}
        for name in order:
            default = recorded[name][0]
            value = name
            if isinstance(default, _Field):
                if default.default_factory is not _NONE:
                    known[f"_make_{name}"] = default.default_factory
                    value = f"_make_{name}() if {name} is _NONE else {name}"
                    default = _NONE
                    defaults[name] = _NONE
                else:
                    default = default.default
            if default is not _NONE:
                defaults[name] = default
            body.append(f" _set(self,{name!r},{value})")
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        star = ["*"] if len(by_place) < len(order) else []
        parameters = ",".join(["self", *by_place, *star, *order[len(by_place) :]])
        exec(f"def __init__({parameters}):\n" + ("\n".join(body) or " pass"), known)  # noqa: S102
        init = known["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        init.__module__ = cls.__module__
        init.__annotations__ = {**{name: recorded[name][2] for name in order}, "return": None}
        init.__kwdefaults__ = {name: defaults[name] for name in order[len(by_place) :] if name in defaults} or None
        init.__defaults__ = tuple(defaults[name] for name in by_place if name in defaults) or None
        return init

    class _Twin:
        """Replaces `__dataclass_fields__` and `__dataclass_params__` until they are read."""

        def __init__(self, name, cls, own, kw_only):
            self._name = name
            self._of = (cls.__name__, cls.__bases__, own, kw_only)

        def __get__(self, instance, owner=None):
            import dataclasses

            name, bases, own, kw_only = self._of
            body = {"__annotations__": {of: kind for of, (_, _, kind) in own.items()}, "__doc__": name, "__slots__": ()}
            twin = type(name, bases, body)
            for of, (default, _, _) in own.items():
                if default is not _NONE:
                    setattr(twin, of, default.theirs() if isinstance(default, _Field) else default)
            twin = dataclasses.dataclass(twin, frozen=True, kw_only=kw_only)
            asked = next(base for base in owner.__mro__ if base.__dict__.get(self._name) is self)
            for attribute in ("__dataclass_fields__", "__dataclass_params__"):
                setattr(asked, attribute, twin.__dict__[attribute])
            return twin.__dict__[self._name]

    def _compared(default):
        return not isinstance(default, _Field) or default.options.get("compare", True)

    def _values(names):
        """A function that returns the compared values of an instance, as a tuple."""
        if len(names) == 1:
            one = attrgetter(names[0])
            return staticmethod(lambda record: (one(record),))
        return staticmethod(attrgetter(*names)) if names else staticmethod(lambda _: ())

    def _eq(self, other):
        return self._values(self) == other._values(other) if other.__class__ is self.__class__ else NotImplemented

    def _ordered_by(compare):
        def method(self, other):
            same = other.__class__ is self.__class__
            return compare(self._values(self), other._values(other)) if same else NotImplemented

        return method

    _ORDER = {f"__{one.__name__}__": _ordered_by(one) for one in (lt, le, gt, ge)}

    def _hash(self):
        return hash(self._values(self))

    def _repr(self):
        shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
        return f"{type(self).__qualname__}({shown})"

    def _refuse_set(self, name, value):
        import dataclasses

        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_del(self, name):
        import dataclasses

        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _getstate(self):
        return [getattr(self, one.name) for one in fields(self)]

    def _setstate(self, state):
        for one, value in zip(fields(self), state, strict=True):
            _set(self, one.name, value)
