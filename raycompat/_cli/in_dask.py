"""The command line as a command of Dask's: ``dask ray status`` is ``raycompat status``."""

from __future__ import annotations

from typing import Any

import click


class _Commands(click.Group):
    """The commands of `raycompat._cli.commands`, which is imported when one of them is used.

    Dask imports the commands of all packages whenever ``dask`` runs.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        from raycompat._cli.commands import cli

        return cli.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one of the commands."""
        from raycompat._cli.commands import cli

        return cli.get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and the program of ``run``."""
        done = super().invoke(ctx)
        if isinstance(done, tuple):
            from raycompat._cli.program import run

            program, arguments, is_module = done
            run(program, arguments, is_module=is_module)
        return done


ray = _Commands(
    "ray",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Ray's API on Dask: start clusters and nodes, look at them, end them, run programs.",
)
