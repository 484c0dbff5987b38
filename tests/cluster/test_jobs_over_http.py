"""Submitted jobs: who may submit them, the command line, and what ends them."""

from __future__ import annotations

import json
import re
import signal
import sys
import urllib.error
import urllib.request

import psutil
import pytest
from _commands import CommandLine

import raycompat as ray
from raycompat._dask import security
from raycompat._protocol.shared_secret import Authority
from raycompat.cluster_utils import Cluster
from raycompat.job_submission import JobStatus, JobSubmissionClient
from raycompat.util.state import get_job, get_log, list_actors, list_jobs, list_logs
from raycompat.util.state.exception import RayStateApiException

PASSWORD = "correct horse battery staple"

#: A job's program that connects to the cluster of the job, and prints what a task returns.
PROGRAM = """
import raycompat as ray
ray.init(configure_logging=False)
print("sum", ray.get(ray.remote(lambda: 1 + 2).remote()))
"""

#: A program that needs some time to end.
SLOW = """
import pathlib, signal, sys, time

def end(*_):
    time.sleep(0.7)
    pathlib.Path("ended").touch()
    sys.exit()

signal.signal(signal.SIGTERM, end)
pathlib.Path("ready").touch()
while True:
    signal.pause()
"""


@pytest.fixture
def commands(tmp_path, no_cluster):
    commands = CommandLine(tmp_path)
    yield commands
    commands.close()


@pytest.fixture(autouse=True)
def no_other_cluster(monkeypatch):
    """Let no variable lead the clients of this process to a cluster."""
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAYCOMPAT_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


def _dashboard(printed):
    (found,) = re.findall(r"https?://127\.0\.0\.1:\d+\S*", printed)
    return found.partition("/status")[0], found.partition("token=")[2]


def _send(url, method="POST", body=b'{"entrypoint": "true"}', cadata=None, **headers):
    """Send a request as any program can; return its status and the text."""
    context = None
    if cadata is not None:
        context = security.ssl.create_default_context(cadata=cadata)
        context.check_hostname = False
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body if method != "GET" else None, names, method=method)
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def _processes(job):
    """Return the processes of a job's command, which have its id in their variables."""
    found = []
    for each in psutil.process_iter():
        try:
            if job in each.environ().get("RAY_JOB_CONFIG_JSON_ENV_VAR", ""):
                found.append(each)
        except psutil.Error:
            continue
    return found


def test_with_a_password_only_the_token_in_the_header_lets_run_programs(commands, monkeypatch):
    (commands.folder / "job").mkdir()
    (commands.folder / "job/program.py").write_text(PROGRAM)
    printed = commands.must(
        *("start", "--head", "--port=0", "--dashboard-port=0", "--num-cpus=1"),
        RAYCOMPAT_PASSWORD=PASSWORD,
    )
    server, token = _dashboard(printed)
    authority = Authority(PASSWORD)
    authority.join("127.0.0.1", int(server.rpartition(":")[2]))
    trusted = authority.credentials()["authority"]

    def send(path, method="POST", **headers):
        return _send(f"{server}{path}", method, cadata=trusted, **headers)

    assert send("/api/jobs/")[0] == 401
    assert send("/api/jobs/", Authorization="Bearer wrong")[0] == 401
    status, text = send(f"/api/jobs/?token={token}")
    assert (status, "Authorization: Bearer" in text) == (403, True)
    cookie = f"raycompat-{security.hashlib.sha256(token.encode()).hexdigest()[:12]}={token}"
    for method, path in [
        ("POST", "/api/jobs/"),
        ("POST", "/api/jobs/some/stop"),
        ("DELETE", "/api/jobs/some"),
        ("PUT", f"/api/packages/gcs/_ray_pkg_{'0' * 40}.zip"),
    ]:
        assert send(path, method, Cookie=cookie)[0] == 403
        assert send(path, method)[0] == 401
    bearer = {"Authorization": f"Bearer {token}"}
    assert send("/api/packages/gcs/..%2Fx.zip", "PUT", **bearer)[0] == 400
    assert json.loads(send("/api/jobs/", "GET", Cookie=cookie)[1]) == []

    with pytest.raises(ConnectionError, match="RAYCOMPAT_PASSWORD"):
        JobSubmissionClient(server, headers=bearer)
    monkeypatch.setenv("RAYCOMPAT_PASSWORD", PASSWORD)
    client = JobSubmissionClient(server)
    environment = {"working_dir": str(commands.folder / "job"), "env_vars": {"SECRET": "of a user"}}
    job = client.submit_job(entrypoint="python program.py", runtime_env=environment)
    printed = commands.must("job", "logs", "-f", job, RAYCOMPAT_PASSWORD=PASSWORD)
    assert printed.startswith("sum 3\n")
    assert client.get_job_status(job) is JobStatus.SUCCEEDED
    assert client.get_job_info(job).runtime_env["env_vars"] == {"SECRET": "of a user"}
    shown = json.loads(send(f"/api/jobs/{job}", "GET", Cookie=cookie)[1])
    assert shown["runtime_env"] == {"env_vars": {"SECRET": "<hidden>"}, "working_dir": "<hidden>"}


def test_without_a_password_the_web_server_runs_nothing_and_the_client_finds_the_scheduler(
    commands,
):
    report = commands.folder / "report.html"
    printed = commands.must(
        *("start", "--head", "--port=0", "--dashboard-port=0", "--num-cpus=1"),
        RAYCOMPAT_REPORT=str(report),
    )
    server, _ = _dashboard(printed)
    mark = commands.folder / "mark"
    body = json.dumps({"entrypoint": f"touch {mark}"}).encode()
    for headers in ({}, {"Content_Type": "application/json"}, {"Authorization": "Bearer x"}):
        status, text = _send(f"{server}/api/jobs/", body=body, **headers)
        assert (status, "password" in text) == (403, True)
    assert json.loads(_send(f"{server}/api/jobs/", "GET")[1]) == []

    # A job outlives the command that has submitted it.
    (commands.folder / "job").mkdir()
    (commands.folder / "job/program.py").write_text(PROGRAM)
    submitted = commands.must(
        *("job", "submit", "--address", server, "--submission-id=first", "--no-wait"),
        *("--working-dir=job", "--metadata-json", '{"owner": "me"}', "--", "python", "program.py"),
    )
    assert "Job 'first' submitted successfully" in submitted
    described = json.loads(commands.must("job", "status", "first", "--format", "json"))
    assert (described["submission_id"], described["metadata"]["owner"]) == ("first", "me")
    followed = commands.must("job", "logs", "--follow", "first")
    assert followed.startswith("sum 3\nJob 'first': SUCCEEDED")
    failed = commands.run("job", "submit", "--", "sh", "-c", "echo why; exit 3")
    assert failed.returncode == 1
    assert "why\n" in failed.stdout
    assert "FAILED" in failed.stdout
    assert "exit code 3" in failed.stdout
    (listed,) = [
        job
        for job in json.loads(commands.must("job", "list", "--format", "json"))
        if job["submission_id"] == "first"
    ]
    assert (listed["status"], listed["metadata"]) == ("SUCCEEDED", {"owner": "me"})
    assert "first" in commands.must("list", "jobs")
    assert "SUCCEEDED" in commands.must("job", "status", "first")
    assert "deleted" in commands.must("job", "delete", "first")
    gone = commands.run("job", "status", "first")
    assert (gone.returncode, "no job 'first'" in gone.stderr) == (1, True)
    assert not mark.exists()
    assert not report.exists()  # it was wanted of one program, not of the jobs


def test_what_a_command_has_started_ends_with_it(cluster, tmp_path, wait_until):
    """Also what has left its process group, and ignores SIGTERM."""
    client = JobSubmissionClient()
    stubborn = "trap '' TERM; echo $$ > pid; sleep 1000"
    job = client.submit_job(
        entrypoint=f'cd {tmp_path}; setsid sh -c "{stubborn}" & sleep 1000; touch later',
        runtime_env={"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "0.2"}},
    )
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    assert client.stop_job(job)
    wait_until(lambda: client.get_job_status(job).is_terminal())
    assert client.get_job_status(job) is JobStatus.STOPPED
    wait_until(lambda: not psutil.pid_exists(pid))
    assert not (tmp_path / "later").exists()


def test_what_is_stopped_has_time_to_end(cluster, tmp_path, wait_until):
    """Also what a shell has started, which itself ends at once."""
    (tmp_path / "slow.py").write_text(SLOW)
    client = JobSubmissionClient()
    job = client.submit_job(
        entrypoint=f"cd {tmp_path}; python slow.py; true",
        runtime_env={"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}},
    )
    wait_until(lambda: (tmp_path / "ready").exists())
    assert client.stop_job(job)
    wait_until(lambda: client.get_job_status(job).is_terminal())
    info = client.get_job_info(job)
    assert (info.status, info.driver_exit_code) == ("STOPPED", -signal.SIGTERM)
    assert (tmp_path / "ended").exists()


def test_a_job_that_cannot_be_prepared(cluster, wait_until):
    client = JobSubmissionClient()
    job = client.submit_job(
        entrypoint="true", runtime_env={"working_dir": "file:///no/such/archive.zip"}
    )
    wait_until(lambda: client.get_job_status(job).is_terminal())
    info = client.get_job_info(job)
    assert (info.status, info.error_type) == ("FAILED", "RUNTIME_ENV_SETUP_FAILURE")
    assert "no/such/archive.zip" in info.message
    assert (job, "FAILED") in [(each.submission_id, each.status) for each in list_jobs()]
    missing = {"working_dir": f"gcs://_ray_pkg_{'0' * 40}.zip"}
    with pytest.raises(RuntimeError, match="not in the cluster"):
        client.submit_job(entrypoint="true", runtime_env=missing)


def test_a_job_fails_with_its_node_which_is_named(no_cluster, wait_until, monkeypatch):
    monkeypatch.setattr(sys, "argv", [*sys.argv, "x\udce9"])  # a name of a file can be this
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        far = cluster.add_node(num_cpus=1, resources={"far": 1})
        ray.init(cluster.address, configure_logging=False)
        client = JobSubmissionClient()
        wait_until(client.list_jobs)
        assert client.list_jobs()[0].entrypoint.endswith("'x\\udce9'")
        job = client.submit_job(entrypoint="sleep 1000", entrypoint_resources={"far": 1})
        wait_until(lambda: _processes(job))
        processes = _processes(job)
        cluster.remove_node(far, allow_graceful=False)
        wait_until(lambda: client.get_job_status(job).is_terminal())
        info = client.get_job_info(job)
        assert (info.status, info.error_type) == ("FAILED", "JOB_SUPERVISOR_ACTOR_DIED")
        assert "node" in info.message
        wait_until(lambda: not any(each.is_running() for each in processes))
        with pytest.raises(RuntimeError, match="gone with its node"):
            client.get_job_logs(job)
        assert [each.state for each in list_actors()] == ["DEAD"]
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_bursts_of_jobs_share_a_process_that_sends_them(cluster, wait_until):
    client = JobSubmissionClient()
    jobs = [client.submit_job(entrypoint=f"echo {number}") for number in range(8)]
    wait_until(lambda: all(client.get_job_status(job).is_terminal() for job in jobs), 60)
    assert list(get_log(submission_id=jobs[3])) == ["3\n"]
    found = get_job(jobs[3])
    assert found.status == "SUCCEEDED"
    names = list_logs(node_id=found.driver_node_id)["internal"]
    assert {f"job-driver-{job}.log" for job in jobs} <= {*names}
    with pytest.raises(RayStateApiException, match="no-job"):
        list(get_log(submission_id="no-job"))
    assert [client.get_job_logs(job) for job in jobs] == [f"{number}\n" for number in range(8)]


def test_a_job_that_waits_for_resources_is_stopped_at_once(cluster, wait_until):
    client = JobSubmissionClient()
    job = client.submit_job(entrypoint="true", entrypoint_num_cpus=1000)
    wait_until(lambda: [each for each in list_actors() if each.state == "PENDING_CREATION"])
    assert client.get_job_status(job) is JobStatus.PENDING
    assert client.stop_job(job)
    assert client.get_job_status(job) is JobStatus.STOPPED
    wait_until(lambda: not [each for each in list_actors() if each.state != "DEAD"])


def test_a_job_that_is_stopped_before_its_actor_is_made_leaves_none(cluster, wait_until):
    client = JobSubmissionClient()

    def is_sending(dask_scheduler):
        return dask_scheduler.plugins["raycompat"].parts.submissions._sending is not None

    of_dask = client._connection._client
    wait_until(lambda: not of_dask.run_on_scheduler(is_sending))
    client.submit_job(entrypoint="true", submission_id="same", entrypoint_num_cpus=1000)
    assert client.stop_job("same")
    assert client.delete_job("same")
    client.submit_job(entrypoint="echo again", submission_id="same")
    wait_until(lambda: client.get_job_status("same").is_terminal())
    assert client.get_job_info("same").status == "SUCCEEDED"
    assert client.get_job_logs("same") == "again\n"
    wait_until(lambda: not [each for each in list_actors() if each.state != "DEAD"])


def test_much_output_and_output_that_is_gone(cluster, wait_until):
    client = JobSubmissionClient()
    gone = client.submit_job(entrypoint='rm "$(readlink /proc/$$/fd/1)"')
    much = client.submit_job(entrypoint="head -c 17000000 /dev/zero | tr '\\0' x; echo; echo end")
    wait_until(lambda: all(client.get_job_status(job).is_terminal() for job in (gone, much)))
    info = client.get_job_info(gone)
    assert (info.status, client.get_job_logs(gone)) == ("SUCCEEDED", "")
    assert client.get_job_logs(much) == "x" * 17_000_000 + "\nend\n"
    part = client._ask("GET", f"/api/jobs/{much}/logs")["logs"]
    before, _, rest = part.partition("\n")
    left_out = 17_000_005 - (16 << 20)
    assert before.startswith(f"[{left_out} bytes of output")
    assert rest == "x" * (17_000_000 - left_out) + "\nend\n"


def test_requests_with_values_that_are_not_valid(cluster):
    client = JobSubmissionClient()
    package = f"/api/packages/gcs/_ray_pkg_{'0' * 40}.zip"

    def status(method, path, fields=None, **query):
        body = json.dumps(fields).encode() if fields is not None else b"content"
        return client._connection.ask(method, path, query, body)[0]

    wrong = {"entrypoint": "true", "runtime_env": {"env_vars": 5}}
    assert status("POST", "/api/jobs/", wrong) == 400
    job = client.submit_job(entrypoint="true")
    logs = f"/api/jobs/{job}/logs"
    assert status("GET", logs, position=0, wait_s="nan") == 400
    assert status("GET", logs, position=-1) == 400
    assert status("PUT", package, upload="../x") == 400
    # A package is there when it has been uploaded to its end.
    assert status("PUT", package, upload="broken", position=0, has_more=1) == 200
    assert status("GET", package) == 404
    assert status("PUT", package, upload="whole", position=0, has_more=0) == 200
    assert status("GET", package) == 200


def test_a_character_whose_bytes_come_apart_is_followed_as_one(cluster, tmp_path, wait_until):
    client = JobSubmissionClient()
    job = client.submit_job(
        entrypoint=f"printf 'a\\303'; until [ -e {tmp_path}/go ]; do sleep 0.1; done; printf '\\251'"
    )

    def so_far(position):
        return client._ask("GET", f"/api/jobs/{job}/logs", query={"position": position})

    wait_until(lambda: so_far(0)["position"])
    assert so_far(0) == {"logs": "a", "position": 1, "is_complete": False, "size": 2}
    assert so_far(1) == {"logs": "", "position": 1, "is_complete": False, "size": 2}
    assert client.get_job_logs(job) == "a"
    (tmp_path / "go").touch()
    wait_until(lambda: client.get_job_status(job).is_terminal())
    assert so_far(1) == {"logs": "é", "position": 3, "is_complete": True, "size": 3}
    assert client.get_job_logs(job) == "aé"


def test_a_cluster_without_nodes_takes_jobs_and_shows_them(dask_cluster, wait_until):
    client = JobSubmissionClient(dask_cluster.address)
    assert client.list_jobs() == []
    with pytest.raises(RuntimeError, match="no job 'some'"):
        client.stop_job("some")
    job = client.submit_job(entrypoint="echo hello")
    assert client.get_job_status(job) is JobStatus.PENDING
    dask_cluster.add_worker()
    wait_until(lambda: client.get_job_status(job).is_terminal(), 60)
    assert (client.get_job_status(job), client.get_job_logs(job)) == ("SUCCEEDED", "hello\n")
