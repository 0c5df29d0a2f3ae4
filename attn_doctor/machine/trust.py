"""Which users can change the file at a path, considering every component of the path, its links and their targets."""

from __future__ import annotations

import os
import stat
from collections import deque
from pathlib import Path

#: The number of links that Linux follows (path_resolution(7)).
_MOST_LINKS = 40


def others_who_write(path: Path) -> str:
    """Why another user could change the file, in words; empty when only this user and root can.

    Every folder on the path must be owned by one of the two and be closed to others. A sticky folder such as /tmp may
    be open, since only the owner can replace an entry (unlink(2), EPERM). A component that cannot be examined counts as
    open.
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
        if stat.S_ISLNK(found.st_mode):  # the mode of a link has no meaning
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
    """True for a group with this user as its only member, as many systems create with the user's name."""
    import grp
    import pwd

    try:
        whose = pwd.getpwuid(user)
        these = grp.getgrgid(group)
    except (KeyError, OSError):
        return False
    return these.gr_name == whose.pw_name and whose.pw_gid == group and set(these.gr_mem) <= {whose.pw_name}
