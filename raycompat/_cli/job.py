"""``raycompat job``: submit programs to a cluster, and look at, follow and end them."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml

from raycompat._cli import tables
from raycompat._cli.json_option import json_option
from raycompat._protocol import shared_secret
from raycompat.exceptions import RayError

if TYPE_CHECKING:
    from raycompat._job_submission.client import JobSubmissionClient
    from raycompat._job_submission.details import JobDetails

#: Seconds between two looks whether a job has ended.
_LOOK_S = 0.3

#: The colours of the words for states.
_COLOURS = {"SUCCEEDED": "green", "FAILED": "red", "STOPPED": "yellow"}


class _JobCommand(click.Command):
    """A command whose errors are those of the client."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (OSError, RuntimeError, TypeError, ValueError, RayError) as error:
            raise click.ClickException(str(error)) from error


_options = (
    click.option(
        "--address",
        metavar="ADDRESS",
        help="The cluster: HOST:PORT of its scheduler, or http://HOST:PORT of its dashboard.  "
        "[default: RAY_API_SERVER_ADDRESS, RAY_ADDRESS, or the one last started on this machine]",
    ),
    click.option(
        "--redis-password-file",
        metavar="FILE",
        help="A file with the cluster's password, of mode 0600. Also: the environment variable "
        f"{shared_secret.FILE_VARIABLE}, or {shared_secret.VARIABLE} with the password.",
    ),
    json_option("--headers", envvar="RAY_JOB_HEADERS", help="Headers for requests over HTTP."),
    click.option(
        "--verify",
        default="true",
        show_default=True,
        metavar="TRUE|FALSE|PATH",
        help="Whether to check the certificate of https://, or the certificates to trust.",
    ),
)


def _connects(command: Any) -> Any:
    for option in reversed(_options):
        command = option(command)
    return command


def _client(given: dict[str, Any]) -> JobSubmissionClient:
    from raycompat._job_submission.client import JobSubmissionClient

    if given["redis_password_file"] is not None:
        os.environ[shared_secret.FILE_VARIABLE] = given["redis_password_file"]
        os.environ.pop(shared_secret.VARIABLE, None)
    verify = {"true": True, "false": False}.get(given["verify"].lower(), given["verify"])
    return JobSubmissionClient(given["address"], headers=given["headers"], verify=verify)


@click.group(short_help="Submit programs to a cluster, follow and end them.")
def job() -> None:
    """Submit programs to a cluster, where they run as jobs; follow them, and end them."""


@job.command(
    cls=_JobCommand,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--submission-id", "--job-id", metavar="ID", help="Its id.  [default: a new one]")
@click.option("--working-dir", metavar="DIR", help="The folder in which it runs; it is uploaded.")
@click.option(
    "--runtime-env",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="A YAML file with its runtime environment.",
)
@json_option("--runtime-env-json", help="Its runtime environment.")
@json_option("--metadata-json", help="Text for other programs.")
@click.option("--entrypoint-num-cpus", type=float, help="CPUs of the command itself.")
@click.option("--entrypoint-num-gpus", type=float, help="GPUs of the command itself.")
@click.option("--entrypoint-memory", type=int, help="Bytes of memory of the command itself.")
@json_option("--entrypoint-resources", help="Its other resources.")
@json_option("--entrypoint-label-selector", help="Labels that its node must have.")
@click.option("--no-wait", is_flag=True, help="Return at once; do not show the output.")
@_connects
@click.argument("entrypoint", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(entrypoint: tuple[str, ...], no_wait: bool, **given: Any) -> None:
    """Run a command as a job of a cluster, and show its output until it ends.

    The exit code is 1 if the job fails. The job goes on when this command is interrupted.

    Example: raycompat job submit --working-dir . -- python program.py --steps 10
    """
    client = _client(given)
    resources = (
        *("entrypoint_num_cpus", "entrypoint_num_gpus", "entrypoint_memory"),
        *("entrypoint_resources", "entrypoint_label_selector"),
    )
    job_id = client.submit_job(
        entrypoint=shlex.join(entrypoint),
        submission_id=given["submission_id"],
        runtime_env=_environment(given),
        metadata=given["metadata_json"],
        **{name: given[name] for name in resources},
    )
    click.echo(f"Job '{job_id}' submitted successfully.\n")
    click.echo(f"  Its cluster: {client.get_address()}")
    for what, command in [("Its output", "logs"), ("Its state", "status"), ("To end it", "stop")]:
        click.echo(f"  {what + ':':13}raycompat job {command} {job_id}")
    click.echo()
    if not no_wait:
        _follow(client, job_id)
        if _show_status(client.get_job_info(job_id)) == "FAILED":
            sys.exit(1)


def _environment(given: dict[str, Any]) -> dict[str, Any]:
    """Return the runtime environment that the options describe."""
    if given["runtime_env"] is not None and given["runtime_env_json"] is not None:
        raise click.UsageError("Give --runtime-env or --runtime-env-json, not both.")
    environment = given["runtime_env_json"] or {}
    if given["runtime_env"] is not None:
        environment = yaml.safe_load(Path(given["runtime_env"]).read_text(encoding="utf-8")) or {}
        if not isinstance(environment, dict):
            raise click.UsageError(
                f"--runtime-env={given['runtime_env']}: expected the fields of an environment, such as "
                "'env_vars:' and 'pip:'."
            )
    if given["working_dir"] is not None:
        environment["working_dir"] = given["working_dir"]
    return dict(environment)


def _follow(client: JobSubmissionClient, job_id: str) -> None:
    try:
        for text in client._follow(job_id):
            click.echo(text, nl=False)
    except KeyboardInterrupt:
        click.echo(f"\nThe job goes on. To end it: raycompat job stop {job_id}", err=True)
        raise


def _show_status(found: JobDetails) -> str:
    """Show the state of a job, and return it."""
    name = found.submission_id or found.job_id
    colour = _COLOURS.get(found.status)
    click.echo(f"Job '{name}': " + click.style(str(found.status), fg=colour))
    if found.message:
        click.echo(found.message)
    return str(found.status)


_format_option = click.option(
    "--format",
    "form",
    type=click.Choice(tables.FORMATS),
    default="default",
    help="For programs: JSON or YAML with all fields.",
)


@job.command(cls=_JobCommand)
@_format_option
@_connects
@click.argument("job_id")
def status(job_id: str, form: str, **given: Any) -> None:
    """Show the state of a job, and why it has failed.

    Example: raycompat job status raysubmit_LnDa6QzfUqgKmWiy
    """
    details = _client(given).get_job_info(job_id)
    if form in ("json", "yaml"):
        click.echo(tables.document(json.loads(details.json()), form))
    else:
        _show_status(details)


@job.command(cls=_JobCommand)
@click.option("--no-wait", is_flag=True, help="Do not wait until it has ended.")
@_connects
@click.argument("job_id")
def stop(job_id: str, no_wait: bool, **given: Any) -> None:
    """End a job, with all processes that its command has started.

    Example: raycompat job stop raysubmit_LnDa6QzfUqgKmWiy
    """
    client = _client(given)
    if not client.stop_job(job_id):
        click.echo("The job has ended already.")
    while not no_wait and not (found := client.get_job_info(job_id)).status.is_terminal():
        time.sleep(_LOOK_S)
    if not no_wait:
        _show_status(found)


@job.command(cls=_JobCommand)
@_connects
@click.argument("job_id")
def delete(job_id: str, **given: Any) -> None:
    """Remove the record of a job that has ended.

    Example: raycompat job delete raysubmit_LnDa6QzfUqgKmWiy
    """
    _client(given).delete_job(job_id)
    click.echo(f"Job '{job_id}' deleted successfully.")


@job.command(cls=_JobCommand)
@click.option("-f", "--follow", is_flag=True, help="Show more as it is printed, until it ends.")
@_connects
@click.argument("job_id")
def logs(job_id: str, follow: bool, **given: Any) -> None:
    """Show what the command of a job has printed.

    Example: raycompat job logs --follow raysubmit_LnDa6QzfUqgKmWiy
    """
    client = _client(given)
    if follow:
        _follow(client, job_id)
        _show_status(client.get_job_info(job_id))
    else:
        click.echo(client.get_job_logs(job_id), nl=False)


@job.command("list", cls=_JobCommand)
@_format_option
@_connects
def list_(form: str, **given: Any) -> None:
    """List the jobs of a cluster: those that were submitted, and other drivers.

    Example: raycompat job list --format json
    """
    all_jobs = _client(given).list_jobs()
    if form in ("json", "yaml"):
        click.echo(tables.formatted([json.loads(each.json()) for each in all_jobs], form))
        return
    rows = [
        {
            "id": each.submission_id or each.job_id,
            "status": str(each.status),
            "type": str(each.type),
            "start_time": each.start_time,
            "end_time": each.end_time,
            "entrypoint": each.entrypoint,
        }
        for each in all_jobs
    ]
    if rows:
        click.echo(tables.table(rows, width=tables.window_width()))
    else:
        click.echo("There are no jobs in the cluster.")
