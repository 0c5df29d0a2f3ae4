"""Who can change what lies at a path: everything on the way to it counts, links and what they lead to included."""

from __future__ import annotations

import os
import stat
from collections import deque
from pathlib import Path

#: As many links as Linux follows (path_resolution(7)).
_MOST_LINKS = 40


def others_who_write(path: Path) -> str:
    """Why another user could change what lies there, in words; empty where only this user and root can.

    Every folder on the way has to be owned by one of the two, and to be closed to everybody else: a sticky folder such
    as /tmp may be open, since what lies in it is its owner's alone (unlink(2), EPERM). What cannot be looked at counts
    as open.
    """
    waiting = deque(Path(os.path.abspath(path)).parts[1:])  # noqa: PTH100
    here = Path("/")
    links = 0
    while True:
        try:
            found = here.lstat()
        except OSError as error:
            return f"{here} cannot be looked at: {error.strerror}"
        if found.st_uid not in (os.geteuid(), 0):
            return f"{here} is owned by user {found.st_uid}"
        if stat.S_ISLNK(found.st_mode):  # its own mode means nothing
            links += 1
            if links > _MOST_LINKS:
                return f"{path} leads through too many links"
            try:
                leads_to = Path(os.readlink(here))  # noqa: PTH115
            except OSError as error:
                return f"{here} cannot be looked at: {error.strerror}"
            waiting.extendleft(reversed(leads_to.parts[1:] if leads_to.is_absolute() else leads_to.parts))
            here = Path("/") if leads_to.is_absolute() else here.parent
        else:
            sticky = stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)
            if found.st_mode & stat.S_IWOTH and not sticky:
                return f"everybody can write in {here}"
            if found.st_mode & stat.S_IWGRP and not sticky and not _is_own_group(found.st_gid, found.st_uid):
                return f"group {found.st_gid} can write in {here}"
        if not waiting:
            return ""
        step = waiting.popleft()
        here = here.parent if step == ".." else here / step


def _is_own_group(group: int, user: int) -> bool:
    """A group of the user alone, as many systems make for each: named alike, with nobody else in it."""
    import grp
    import pwd

    try:
        whose = pwd.getpwuid(user)
        these = grp.getgrgid(group)
    except (KeyError, OSError):
        return False
    return these.gr_name == whose.pw_name and whose.pw_gid == group and set(these.gr_mem) <= {whose.pw_name}
