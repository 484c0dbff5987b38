"""``python -m raycompat``: the command line."""

from raycompat._cli.commands import main

if __name__ == "__main__":
    main()
