"""Marks in the output of executors: lines that are not the user's."""

#: Begins a line that names the running call; the name follows.
NAME_MARK = b"\x1eraycompat runs "

#: Longer names are cut, so that one write to a pipe takes a whole name.
MAX_NAME_BYTES = 1000

#: Begins a line that holds the state of a progress bar, as JSON.
BAR_MARK = '{"__magic_token__": "__ray_tqdm_magic_token__"'
