"""Task `interpreter`: this Python's description of itself, from the standard library alone, in a few milliseconds.

With `isolated` it was started with -S: no code of its environment has run, and its startup files are read as data.

Answer: interpreter.json. Values that this platform lacks are null, with the reason in another key.
"""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys

from . import answers as _answers
from . import startup as _startup


def main(request: dict[str, object], answers: str) -> None:
    libc, libc_reason = _libc()
    markers = _markers()
    with_base = _startup.enter_environment()
    sys_path, code, users = _startup.path_and_code(str(request.get("pythonpath") or ""), with_base)
    if not request.get("isolated"):
        sys_path, users = list(sys.path), bool(site.ENABLE_USER_SITE)
    import sysconfig  # it reads sys.prefix when it is imported

    paths = sysconfig.get_paths()
    _answers.write(
        answers,
        "interpreter",
        {
            "executable": sys.executable,
            "version": markers["python_full_version"],
            "implementation": markers["platform_python_implementation"],
            "prefix": sys.prefix,
            "base_prefix": sys.base_prefix,
            "exec_prefix": sys.exec_prefix,
            "sys_path": sys_path,
            "startup_code": code,
            "platform": sys.platform,
            "platform_tag": sysconfig.get_platform(),
            "machine": os.uname().machine,
            "libc": libc,
            "libc_reason": libc_reason,
            "soabi": sysconfig.get_config_var("SOABI"),
            "ext_suffix": sysconfig.get_config_var("EXT_SUFFIX"),
            "extension_suffixes": list(importlib.machinery.EXTENSION_SUFFIXES),
            "has_pip": importlib.machinery.PathFinder.find_spec("pip", sys_path) is not None,
            "purelib": paths["purelib"],
            "platlib": paths["platlib"],
            "scripts": paths["scripts"],
            "data": paths["data"],
            "user_base": site.getuserbase(),
            "user_site": site.getusersitepackages(),
            "user_site_enabled": users,
            "conda": os.path.isdir(os.path.join(sys.prefix, "conda-meta")),
            "uv": _uv(),
            "externally_managed": os.path.isfile(os.path.join(paths["stdlib"], "EXTERNALLY-MANAGED")),
            "markers": markers,
        },
    )


def _libc() -> tuple[str | None, str | None]:
    """("glibc 2.35", None), or (None, reason): musl does not support the name that glibc answers."""
    try:
        value = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, OSError, ValueError) as error:
        return None, "confstr(CS_GNU_LIBC_VERSION): {}".format(error)
    return (value, None) if value else (None, "confstr(CS_GNU_LIBC_VERSION) has no value")


def _uv() -> str | None:
    """Version of the uv that created this environment ("0.4.1"); None when another tool created it."""
    try:
        with open(os.path.join(sys.prefix, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition("=")
                if key.strip() == "uv":
                    return value.strip()
    except OSError:
        pass
    return None


#: As platform.python_implementation spells them; the module `platform` takes a twentieth of a start to import.
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


def _markers() -> dict[str, str]:
    """The environment for PEP 508's markers, with the keys of packaging.markers."""
    system = os.uname()
    full = sys.version.split()[0]
    name = sys.implementation.name
    version = sys.implementation.version
    implementation_version = "{0.major}.{0.minor}.{0.micro}".format(version)
    if version.releaselevel != "final":
        implementation_version += version.releaselevel[0] + str(version.serial)
    return {
        "os_name": os.name,
        "sys_platform": sys.platform,
        "platform_machine": system.machine,
        "platform_python_implementation": _IMPLEMENTATIONS.get(name, name),
        "platform_release": system.release,
        "platform_system": system.sysname,
        "platform_version": system.version,
        "python_version": "{0[0]}.{0[1]}".format(sys.version_info),
        "python_full_version": full,
        "implementation_name": name,
        "implementation_version": implementation_version,
    }
