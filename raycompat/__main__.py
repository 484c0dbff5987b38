"""``python -m raycompat``: the command line."""

from raycompat.cli import main

if __name__ == "__main__":
    main()
