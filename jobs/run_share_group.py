"""The share-group job, for spark-submit: `spark-submit ... jobs/run_share_group.py --config conf/share_group.yaml`.

Runs until SIGTERM, then ends between batches with exit 0. Exit 1: the configuration is wrong, or the job cannot go on;
exit 3: another job leads (FENCED_LEADER_EPOCH). On one machine, `sharegroup job` is the same without spark-submit.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout, when the package is not installed

from sharegroup.spark.job.job.run_job import main

if __name__ == "__main__":
    sys.exit(main())
