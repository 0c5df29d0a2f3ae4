"""Finds the relevant source line: the innermost frame outside torch, einops and this package, and its text.

Walking frames is the most expensive part of a recorder, so a file is classified once and then looked up by name; source
text is read when a report is made, never while the model runs.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

if TYPE_CHECKING:
    from types import FrameType

    from ..answer import Place

Site = Tuple[str, int, str]
"""File, line (from 1), function."""

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep  # patient/
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_SITE_PACKAGES = tuple({sysconfig.get_paths()["purelib"] + os.sep, sysconfig.get_paths()["platlib"] + os.sep})

# Libraries that only rearrange their operands: a dtype cannot be fixed there, so their caller's line is shown.
_PASSED_THROUGH = ("torch", "einops", "triton")

_is_user: Dict[str, bool] = {}


def _classify(filename: str) -> bool:
    if filename.startswith(("<frozen", _OURS)):
        return False
    package = os.sep.join(("", "site-packages", ""))
    where = filename.rfind(package)
    if where >= 0:
        top = filename[where + len(package) :].split(os.sep, 1)[0]
        return top not in _PASSED_THROUGH
    for name in _PASSED_THROUGH:
        module = sys.modules.get(name)
        origin = getattr(module, "__file__", None)
        if origin and filename.startswith(os.path.dirname(origin) + os.sep):
            return False
    return not (filename.startswith(_STDLIB) and not filename.startswith(_SITE_PACKAGES))


def is_user(filename: str) -> bool:
    known = _is_user.get(filename)
    if known is None:
        known = _is_user[filename] = _classify(filename)
    return known


def user_frame(frame: Optional[FrameType]) -> Optional[FrameType]:
    """The innermost user frame at or above `frame`, or None."""
    known = _is_user
    while frame is not None:
        filename = frame.f_code.co_filename
        user = known.get(filename)
        if user is None:
            user = is_user(filename)
        if user:
            return frame
        frame = frame.f_back
    return None


def caller(depth: int) -> FrameType:
    """The frame `depth` levels above the caller's own, or the outermost one.

    On a GPU autograd runs in a thread of its own, where a dispatched operation has almost no Python frames above it.
    """
    frame = sys._getframe(1)
    for _ in range(depth):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame


def site_of(frame: Optional[FrameType]) -> Optional[Site]:
    found = user_frame(frame)
    if found is None:
        return None
    code = found.f_code
    return (code.co_filename, found.f_lineno, code.co_name)


def stack_of(frame: Optional[FrameType], limit: int = 12) -> List[Site]:
    """The user frames from the innermost outwards."""
    sites: List[Site] = []
    frame = user_frame(frame)
    while frame is not None and len(sites) < limit:
        sites.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = user_frame(frame.f_back)
    return sites


def raising_site(error: BaseException) -> Optional[Site]:
    """The innermost user line in the traceback of an exception."""
    found = None
    entry = error.__traceback__
    while entry is not None:
        if is_user(entry.tb_frame.f_code.co_filename):
            found = (entry.tb_frame.f_code.co_filename, entry.tb_lineno, entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    return found


def described(site: Optional[Site]) -> Optional[Place]:
    """A site as JSON, with its source line if the file can be read."""
    if site is None:
        return None
    filename, line, function = site
    return {
        "file": filename,
        "line": line,
        "function": function,
        "source": linecache.getline(filename, line).strip() or None,
    }
