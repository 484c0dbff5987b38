"""What a listener does when its process cannot open another file: it pauses.

Without the pause, the waiting connection would be reported again at once, for ever.
"""

from __future__ import annotations

import errno

#: Seconds of the pause.
PAUSE_S = 0.5

#: The numbers of the errors of `accept` if this process, or the machine, cannot open another file.
NO_FILE_IS_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
