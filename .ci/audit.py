"""Asks the index for known vulnerabilities of what is installed, and fails on findings alone.

Not every index answers such questions (a mirror has the files and no advisories), and being without
a network is no fault of the code: then it says how much could be asked, and the run goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

COMMAND = (
    "pip_audit",
    "--format=json",
    "--progress-spinner=off",
    "--skip-editable",
    "--timeout=15",
)
SECONDS_MAX = 300


def judge(report: Mapping[str, Any]) -> tuple[list[str], int, int]:
    """The findings of a report, how many packages were looked up, and how many there are."""
    packages = report["dependencies"]
    asked = [package for package in packages if "skip_reason" not in package]
    findings = [
        f"{package['name']} {package['version']}: {found['id']}, "
        f"fixed in {', '.join(found['fix_versions']) or 'no version yet'}"
        for package in asked
        for found in package["vulns"]
    ]
    return findings, len(asked), len(packages)


def main() -> int:
    """The exit code: 1 when an installed package has a known vulnerability."""
    try:
        run = subprocess.run(
            [sys.executable, "-m", *COMMAND],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        findings, asked, installed = judge(json.loads(run.stdout))
    except (subprocess.TimeoutExpired, ValueError) as error:
        print(f"audit: not done, the index did not answer ({type(error).__name__})")
        return 0
    print(f"audit: {asked} of {installed} packages could be looked up, {len(findings)} finding(s)")
    for finding in findings:
        print(f"audit: {finding}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
