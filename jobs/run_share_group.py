"""The share-group job, for spark-submit: `spark-submit ... jobs/run_share_group.py --config conf/share_group.yaml`.

It runs until SIGTERM, stops between two batches, and exits with code 0. Code 1 means that the configuration is invalid
or that an error occurred. Code 3 means that another job is the leader (FENCED_LEADER_EPOCH). On one machine,
`sharegroup job` does the same without spark-submit.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from sharegroup.spark.job.run_job import main

if __name__ == "__main__":
    sys.exit(main())
