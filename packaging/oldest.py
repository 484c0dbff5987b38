"""Print constraints for pip: the oldest release of each dependency that pyproject.toml names."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
oldest: dict[str, str] = {}
for requirement in [*project["dependencies"], *project["optional-dependencies"]["data"]]:
    if found := re.fullmatch(r"([A-Za-z0-9-]+)>=([0-9.]+)", requirement):
        oldest.setdefault(*found.groups())
for name, version in oldest.items():
    print(f"{name}=={version}")
