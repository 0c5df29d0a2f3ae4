"""Reads what sysfs, /proc and a few system calls say of the node: adapters, ports, IOMMU, limits, modules, the clock.

Runs in the process that asks the driver (node_child.py), beside it: reading the state of a port whose firmware hangs
blocks for a minute. Standard library alone. In what it returns None means absent, {"unknown": reason} that it could not
look.

Sources: https://docs.kernel.org/admin-guide/abi-testing.html (sysfs-bus-pci, sysfs-class-net, sysfs-class-infiniband,
sysfs-kernel-iommu_groups), adjtimex(2), PCI Express Base Specification 7.7.11 (Access Control Services).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing is too slow here
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: Modules whose presence or version decides how GPUs and adapters reach each other.
MODULES = (
    "nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "nvidia_fs", "gdrdrv", "ib_core", "ib_uverbs", "ib_umad",
    "rdma_cm", "mlx5_core", "mlx5_ib", "bnxt_re", "irdma", "efa", "hfi1", "amdgpu", "knem", "xpmem",
)  # fmt: skip
#: Limits that attention jobs meet, by their names in the standard library's `resource`.
LIMITS = ("memlock", "nofile", "nproc", "stack")
#: PCI classes: network and InfiniBand controllers; display and compute devices; bridges between PCI buses.
_NETWORK, _GPU, _BRIDGE = "0x02", ("0x0300", "0x0302", "0x0380", "0x1200"), "0x0604"
_GPU_VENDORS = ("0x10de", "0x1002")
#: Offset of the extended capabilities, the number of ACS among them, and the bits that turn peer traffic back upstream.
_EXTENDED, _ACS, _REDIRECTS = 0x100, 0x000D, 0x1C


def read(root: str = "/") -> dict[str, Any]:
    """All of it. `root` is another folder in tests."""
    devices = _devices(root)
    if isinstance(devices, dict) and "unknown" in devices:
        nics: Any = devices
        iommu: Any = devices
        acs: Any = devices
    else:
        nics = [_nic(path, root) for path, kind, _ in devices if kind.startswith(_NETWORK) and not _virtual(path)]
        ends = [path for path, kind, maker in devices if kind.startswith(_NETWORK) or _is_gpu(kind, maker)]
        iommu = _iommu(ends, root)
        acs = _acs(ends)
    return {
        "nics": nics,
        "rdma": _rdma(root),
        "iommu": iommu,
        "acs_bridges": acs,
        "hugepages": _hugepages(root),
        "transparent_hugepages": _bracketed(_text(f"{root}/sys/kernel/mm/transparent_hugepage/enabled")),
        "modules": _modules(root),
        "limits": _limits(),
        "clock": clock(),
    }


def _text(path: str) -> Any:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(4096).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        return {"unknown": f"{path}: {error.strerror}"}


def _names(path: str) -> list[str] | None:
    try:
        return sorted(os.listdir(path))  # noqa: PTH208
    except OSError:
        return None


def _number(path: str) -> Any:
    text = _text(path)
    if isinstance(text, str):
        return int(text) if text.lstrip("-").isdigit() else {"unknown": f"{path} says {text[:40]!r}"}
    return text


def _devices(root: str) -> Any:
    """(path, class, vendor) of each PCI device, or why they are not known."""
    folder = f"{root}/sys/bus/pci/devices"
    names = _names(folder)
    if names is None:
        if _names(f"{root}/sys/bus"):
            return []  # a machine without PCI
        return {"unknown": f"{folder} cannot be listed: is /sys mounted?"}
    found = ((f"{folder}/{name}", _text(f"{folder}/{name}/class"), _text(f"{folder}/{name}/vendor")) for name in names)
    return [(path, kind, maker) for path, kind, maker in found if isinstance(kind, str)]


def _is_gpu(kind: str, maker: Any) -> bool:
    return maker in _GPU_VENDORS and kind.startswith(_GPU)


def _virtual(path: str) -> bool:
    """A function that another adapter lends out: how many there are is the host's affair."""
    return os.path.lexists(f"{path}/physfn")


def _nic(path: str, root: str) -> dict[str, Any]:
    interfaces = _names(f"{path}/net")
    if interfaces is None:  # virtio puts a device of its own between
        between = [name for name in _names(path) or () if name.startswith("virtio")]
        interfaces = [name for one in between for name in _names(f"{path}/{one}/net") or ()]
    first = interfaces[0] if interfaces else None
    hidden = {"unknown": "its interface is in another network namespace, or it has none"}
    own = f"{path}/net/{first}" if os.path.isdir(f"{path}/net/{first}") else f"{root}/sys/class/net/{first}"  # noqa: PTH112
    state = _text(f"{own}/operstate") if first else hidden
    return {
        "address": os.path.basename(path),  # noqa: PTH119
        "model": _model(path),
        "driver": _linked(f"{path}/driver"),
        "interface": first,
        "link": state,
        "mbps": _speed(own, state) if first else hidden,
        "firmware": _firmware(path, first, root),
        "width": _number(f"{path}/current_link_width"),
        "max_width": _number(f"{path}/max_link_width"),
        "speed": _generation(_text(f"{path}/current_link_speed")),
        "max_speed": _generation(_text(f"{path}/max_link_speed")),
    }


def _model(path: str) -> Any:
    vendor, device = _text(f"{path}/vendor"), _text(f"{path}/device")
    if isinstance(vendor, str) and isinstance(device, str):
        return f"{vendor.removeprefix('0x')}:{device.removeprefix('0x')}"
    return device if isinstance(device, dict) else vendor


def _linked(path: str) -> str | None:
    try:
        return os.path.basename(os.readlink(path))  # noqa: PTH115, PTH119
    except OSError:
        return None


def _speed(own: str, state: Any) -> Any:
    if state == "down":
        return None  # the kernel answers with an error, or with what was agreed last
    speed = _number(f"{own}/speed")
    return None if isinstance(speed, int) and speed <= 0 else speed  # -1: no link, or a virtual one


def _generation(said: Any) -> Any:
    """`32.0 GT/s` of `32.0 GT/s PCIe`; of a device that is no PCI Express one, absent."""
    if not isinstance(said, str):
        return said
    return " ".join(said.split()[:2]) if said[:1].isdigit() else None


def _firmware(path: str, interface: str | None, root: str) -> Any:
    for name in _names(f"{path}/infiniband") or ():
        said = _text(f"{path}/infiniband/{name}/fw_ver")
        if said:
            return said
    if interface is None:
        return {"unknown": "its interface is in another network namespace, or it has none"}
    if root.strip("/"):
        return {"unknown": "asked of the running kernel alone"}
    return _ethtool_firmware(interface)


def _ethtool_firmware(interface: str) -> Any:
    """The firmware's version by SIOCETHTOOL, ETHTOOL_GDRVINFO (include/uapi/linux/ethtool.h)."""
    import _socket  # the module `socket` on top of it costs more than all else here
    import ctypes
    import fcntl
    import struct

    about = ctypes.create_string_buffer(struct.pack("I", 0x3), 196)
    request = struct.pack("16sP16x", interface.encode()[:15], ctypes.addressof(about))
    # Of any family: one that could reach a network is not needed to ask the kernel.
    asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(asked.fileno(), 0x8946, request)
    except OSError as error:
        return {"unknown": f"ethtool -i {interface}: {error.strerror}"}
    finally:
        asked.close()
    version = about.raw[68:100].split(b"\0")[0].decode(errors="replace").strip()
    return version if version not in ("", "N/A") else None


def _rdma(root: str) -> Any:
    """Every port of every RDMA device."""
    folder = f"{root}/sys/class/infiniband"
    devices = _names(folder)
    if devices is None:
        if _names(f"{root}/sys/class"):
            return []
        return {"unknown": f"{folder} cannot be listed: is /sys mounted?"}
    found = []
    for name in devices:
        device = f"{folder}/{name}"
        kind, board, firmware = (_text(f"{device}/{one}") for one in ("hca_type", "board_id", "fw_ver"))
        for port in _names(f"{device}/ports") or ():
            own = f"{device}/ports/{port}"
            found.append(
                {
                    "name": f"{name}/{port}",
                    "model": " ".join(one for one in (kind, board) if isinstance(one, str) and one) or kind,
                    "firmware": firmware,
                    "state": _behind(_text(f"{own}/state")),
                    "physical": _behind(_text(f"{own}/phys_state")),
                    "rate": _text(f"{own}/rate"),
                    "layer": _text(f"{own}/link_layer"),
                }
            )
    return found


def _behind(said: Any) -> Any:
    """`ACTIVE` of `4: ACTIVE`."""
    return said.rpartition(": ")[2] if isinstance(said, str) else said


def _iommu(ends: list[str], root: str) -> Any:
    """`off`, or which domains GPUs and adapters are in: `identity` passes through, `DMA` translates."""
    groups = [_linked(f"{path}/iommu_group") for path in ends]
    if not any(groups):
        return "on" if not ends and _names(f"{root}/sys/class/iommu") else "off"
    kinds = {_text(f"{root}/sys/kernel/iommu_groups/{group}/type") for group in groups if group}
    return ", ".join(sorted(kind if isinstance(kind, str) else "on" for kind in kinds))


def _acs(ends: list[str]) -> Any:
    """How many bridges above GPUs and adapters turn traffic between peers back upstream."""
    bridges: set[str] = set()
    for path in ends:
        above = os.path.dirname(os.path.realpath(path))  # noqa: PTH120
        while _text(f"{above}/class") not in (None, ""):
            bridges.add(above)
            above = os.path.dirname(above)  # noqa: PTH120
    count = 0
    for bridge in sorted(bridges):
        if not str(_text(f"{bridge}/class")).startswith(_BRIDGE):
            continue
        redirects = _redirects(f"{bridge}/config")
        if not isinstance(redirects, bool):
            return redirects
        count += redirects
    return count


def _redirects(config: str) -> Any:
    try:
        with open(config, "rb", buffering=0) as file:  # noqa: PTH123
            for offset, number in _capabilities(file):
                if number == _ACS:
                    file.seek(offset + 6)
                    return bool(int.from_bytes(file.read(2), "little") & _REDIRECTS)
    except PermissionError:
        return {"unknown": f"{config}: only root may read it whole"}
    except OSError as error:
        return {"unknown": f"{config}: {error.strerror}"}
    return False


def _capabilities(file: Any) -> Iterator[tuple[int, int]]:
    """(offset, number) of each extended capability. Raises PermissionError where only the first 64 bytes are shown."""
    file.seek(64)
    if not file.read(4):
        raise PermissionError
    offset = _EXTENDED
    for _ in range(64):  # a circle is a broken device
        file.seek(offset)
        header = int.from_bytes(file.read(4), "little")
        if header in (0, 0xFFFFFFFF):
            return
        yield offset, header & 0xFFFF
        offset = header >> 20
        if offset < _EXTENDED:
            return


def _hugepages(root: str) -> Any:
    folder = f"{root}/sys/kernel/mm/hugepages"
    sizes = _names(folder)
    if sizes is None:
        return None if _names(f"{root}/sys/kernel") else {"unknown": f"{folder} cannot be listed: is /sys mounted?"}
    counts = [(name.removeprefix("hugepages-"), _number(f"{folder}/{name}/nr_hugepages")) for name in sizes]
    unread = [count for _, count in counts if isinstance(count, dict)]
    if unread:
        return unread[0]
    return ", ".join(f"{count} of {size}" for size, count in counts if count) or "none"


def _bracketed(said: Any) -> Any:
    """`madvise` of `always [madvise] never`."""
    return said.partition("[")[2].partition("]")[0] or said if isinstance(said, str) else said


def _modules(root: str) -> Any:
    folder = f"{root}/sys/module"
    there = _names(folder)
    if there is None:
        return {"unknown": f"{folder} cannot be listed: is /sys mounted?"}
    return {name: _text(f"{folder}/{name}/version") for name in MODULES if name in there}


def _limits() -> dict[str, list[str]]:
    import resource

    def words(limit: int) -> str:
        return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)

    found = {}
    for name in LIMITS:
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is not None:
            found[name] = [words(limit) for limit in resource.getrlimit(number)]
    return found


def clock() -> Any:
    """Whether somebody keeps the clock right, and the largest error by the kernel's own account, in milliseconds."""
    import ctypes

    class Timex(ctypes.Structure):
        _fields_ = (
            ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
            ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_char * 512),
        )  # fmt: skip

    answer = Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(answer))
    except (OSError, AttributeError) as error:
        return {"unknown": f"adjtimex: {error}"}
    if state < 0:
        return {"unknown": f"adjtimex: {os.strerror(ctypes.get_errno())}"}
    unsynchronized = bool(answer.status & 0x40) or state == 5  # STA_UNSYNC, TIME_ERROR
    return {"synchronized": not unsynchronized, "error_ms": answer.maxerror / 1000}
