"""The journal of a `fix` run: written before each change; used to finish, verify and undo the run."""
