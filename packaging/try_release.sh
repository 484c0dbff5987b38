#!/usr/bin/env bash
# Install a wheel or an sdist into an empty environment, outside of the repository, and run the program of
# README.md: try_release.sh PYTHON FILE
set -euo pipefail
python=$1 file=$(realpath "$2") readme=$(realpath README.md)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --disable-pip-version-check --quiet "$file"
# The first block of code.
awk '/^```python/ { inside = 1; next } /^```/ && inside { exit } inside' "$readme" > "$folder/first.py"
cd "$folder"
printed=$(venv/bin/python first.py 2> errors) || { cat errors; exit 1; }
expected=$'[0, 1, 4, 9]\n[0, 1, 5, 14]'
if [[ $printed != "$expected" ]]; then
    printf 'The program of README.md has printed:\n%s\nand not:\n%s\n' "$printed" "$expected"
    exit 1
fi
venv/bin/python -m pip check
venv/bin/raycompat --version
echo "$(basename "$file"): works in an empty environment"
