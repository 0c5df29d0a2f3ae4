"""What a recipe's `only_on` and `unless` mean: the conditions under which it is impossible.

A log's words are often those of several troubles. The rest of the log says on whose device and system it was written:
what is only possible elsewhere is not told, even where the words alone prove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attn_doctor.model.facts import FactName
from attn_doctor.recipes.recipe import Matches

#: A word of `only_on` -> the devices (fact log.device) and systems (node.system) on which it is possible; none: any.
PLACES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "NVIDIA": (("NVIDIA",), ()),
    "AMD": (("AMD", "ZLUDA"), ()),
    "ROCm": (("AMD",), ()),
    "ZLUDA": (("ZLUDA", "AMD"), ()),
    "DirectML": (("DirectML", "AMD", "Intel"), ("Windows",)),
    "Intel": (("Intel",), ()),
    "Ascend": (("Ascend",), ()),
    "Gaudi": (("Gaudi",), ()),
    "TPU": (("TPU",), ()),
    "Neuron": (("Neuron",), ()),
    "Moore Threads": (("Moore Threads",), ()),
    "Apple": (("Apple",), ("macOS",)),
    "Linux": ((), ("Linux",)),
    "Windows": ((), ("Windows",)),
    "macOS": ((), ("macOS",)),
}
_DEVICE, _SYSTEM = FactName.parse("log.device"), FactName.parse("node.system")


def elsewhere(only_on: Iterable[str]) -> Iterator[Matches]:
    """One condition for the devices, and one for the systems, that are none of these places. A device brings its system
    along where each of the devices does, and no system is named.
    """
    places = [PLACES[one] for one in only_on]
    of_devices = [place for place in places if place[0]]
    systems = [place for place in places if not place[0]]
    if not systems and all(place[1] for place in of_devices):
        systems = of_devices
    for name, allowed in (
        (_DEVICE, [device for place in of_devices for device in place[0]]),
        (_SYSTEM, [system for place in systems for system in place[1]]),
    ):
        if allowed:
            yield Matches(fact=name, pattern=f"^(?!(?:{'|'.join(dict.fromkeys(allowed))})$)")
