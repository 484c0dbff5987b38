"""Settings of the tests without a cluster."""

from __future__ import annotations

import hypothesis

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("without deadline", deadline=None)
hypothesis.settings.load_profile("without deadline")
