"""Submit programs to a cluster, where they run as jobs: see :doc:`/docs/jobs`.

Notes
-----
Ray source: ``ray.job_submission``, 2.60.0.
"""

from __future__ import annotations

from raycompat._job_submission.client import JobSubmissionClient
from raycompat._job_submission.details import (
    JobDetails,
    JobErrorType,
    JobInfo,
    JobStatus,
    JobType,
)
from raycompat._messages.state import DriverInfo

__all__ = [
    "DriverInfo",
    "JobDetails",
    "JobErrorType",
    "JobInfo",
    "JobStatus",
    "JobSubmissionClient",
    "JobType",
]
