"""B10: members that work for a while on each record, through the gateway and on Kafka's own share groups.

    python -m tests.benchmarks.b10_workers build/benchmarks.json docs/workers.png    # draws what was measured

How much of `members x 1000 / work` records a second they get done: 1 is all that there is. One broker has both sides;
the job and the gateway stand still while Kafka is measured. Both with their default settings.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.benchmarks import topics
from tests.benchmarks.engine import Engine, write_config
from tests.benchmarks.figures import Figure
from tests.benchmarks.kafka_groups import begin_at_earliest
from tests.benchmarks.process_tree import ProcessTree
from tests.harness.submitted_job import ROOT

NAME = "B10"
_TOPIC, _PARTITIONS, _SIZE = "work", 4, 100
#: Kafka's producers' default. Share groups of Kafka do not divide a batch among members.
_BATCH_SIZE = 16_384
_MEMBERS, _WORK_MS, _POLLS = (4, 16, 64), (1, 5, 20, 200), (10, 50, 500)
_PROCESSES = 4
_START_S = 120
#: Members work for so long at least before what they do counts, and for a poll and a fifth, but not for longer than
#: the last: in a job of hours the first polls do not count.
_SETTLE_S, _SETTLE_POLLS, _LONGEST_SETTLE_S = 5.0, 1.2, 12.0
#: By work in ms: what share of the work is to be done.
_REACH = {5: 0.92, 20: 0.97, 200: 0.97}
#: At 1 ms two cores are what there is too little of: against Kafka then.
_MORE_THAN_KAFKA = 0.1
_SLOWEST = 0.9


class Case(NamedTuple):
    """So many members, ms of work on a record, records of a poll."""

    members: int
    work_ms: int
    polled: int

    @property
    def group_id(self) -> str:
        """Of its members."""
        return f"work-{self.members}-{self.work_ms}-{self.polled}"

    @property
    def settle_s(self) -> float:
        """How long they work before what they do counts."""
        return min(max(_SETTLE_S, _SETTLE_POLLS * self.polled * self.work_ms / 1000), _LONGEST_SETTLE_S)


class Done(NamedTuple):
    """`share`: of what could be done. `slowest`: the slowest member against the mean."""

    share: float
    slowest: float


def run(kafka: EmbeddedKafka, directory: Path, quick: bool) -> tuple[list[Figure], dict[str, object]]:
    """The lowest figure of each amount of work, and all of both sides."""
    seconds = 3.0 if quick else 10.0
    cases = [Case(4, 20, 50), Case(4, 1, 500)] if quick else _cases()
    records = max(int(3 * (seconds + 5 + case.settle_s) * case.members * 1000 / case.work_ms) for case in cases)
    kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
    topics.fill(kafka.bootstrap_servers, _TOPIC, _PARTITIONS, records, _SIZE, _BATCH_SIZE)
    groups = [case.group_id for case in cases]
    begin_at_earliest(kafka.bootstrap_servers, [f"kafka-{group_id}" for group_id in groups])
    config = write_config(directory / "engine", kafka.bootstrap_servers, groups=groups)
    found: dict[Case, tuple[Done, Done]] = {}
    with Engine(config) as engine, GatewayProcess(config, directory / "gateway.log") as gateway:
        served = ProcessTree(gateway.pid)
        _measured(gateway.bootstrap_servers, cases[0].group_id, cases[0], seconds)  # warm-up, goes on below
        for case in cases:
            ours = _measured(gateway.bootstrap_servers, case.group_id, case, seconds)
            with engine.processes.held(), served.held():
                its = _measured(kafka.bootstrap_servers, f"kafka-{case.group_id}", case, seconds)
            found[case] = ours, its
            print(f"  {case.group_id}: {ours.share:.2f}, Kafka {its.share:.2f}", file=sys.stderr, flush=True)
    return _figures(found), {
        "cases": [{**case._asdict(), "ours": ours, "kafka": its} for case, (ours, its) in found.items()]
    }


def _cases() -> list[Case]:
    return [Case(*case) for case in itertools.product(_MEMBERS, _WORK_MS, _POLLS)]


def _measured(bootstrap_servers: str, group_id: str, case: Case, seconds: float) -> Done:
    processes = [
        subprocess.Popen(
            [
                sys.executable, "-m", "tests.benchmarks.working_members", "--bootstrap-servers", bootstrap_servers,
                "--group", group_id, "--topic", _TOPIC, "--members", str(case.members // _PROCESSES),
                "--work-ms", str(case.work_ms), "--max-poll-records", str(case.polled),
            ],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        for _ in range(_PROCESSES)
    ]  # fmt: skip
    try:
        for process in processes:
            if _said(process).strip() != "ready":
                raise RuntimeError(f"members of {group_id} have ended")
        time.sleep(case.settle_s)  # the load itself
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        answers = [json.loads(_said(process)) for process in processes]
        for process in processes:
            process.wait(_START_S)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    done = [member / answer["seconds"] for answer in answers for member in answer["finished"]]
    mean = sum(done) / len(done)
    return Done(mean * case.work_ms / 1000, min(done) / mean if mean else 0.0)


def _said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _figures(found: dict[Case, tuple[Done, Done]]) -> list[Figure]:
    figures = []
    for work_ms in sorted({case.work_ms for case in found}):
        here = {case: both for case, both in found.items() if case.work_ms == work_ms}
        worst = min(here, key=lambda case: here[case][0].share)
        ours, its = here[worst]
        what = f"share of the work done at {work_ms} ms a record, the lowest of {len(here)} cases, against Kafka's"
        note = f"at {worst.members} members, polls of {worst.polled}"
        least = _REACH.get(work_ms)
        if least is not None:
            reach, reached = f">= {least}", ours.share >= least
        else:
            reach = f"Kafka's + {_MORE_THAN_KAFKA}"
            reached = all(mine.share >= theirs.share + _MORE_THAN_KAFKA for mine, theirs in here.values())
        figures.append(Figure(NAME, what, ours.share, "", its.share, ours.share / its.share, reach, reached, note))
    slowest, its_slowest = (min(both[side].slowest for both in found.values()) for side in (0, 1))
    figures.append(
        Figure(NAME, "the slowest member against the mean, the lowest of all cases, and of Kafka's", slowest, "",
               its_slowest, None, f">= {_SLOWEST}", slowest >= _SLOWEST)
    )  # fmt: skip
    return figures


def draw(cases: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A picture of the cases that a run has written: a panel for each amount of work."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    works = sorted({case["work_ms"] for case in cases})
    figure, panels = plt.subplots(1, len(works), figsize=(3.2 * len(works), 3.4), sharey=True, squeeze=False)
    for axes, work_ms in zip(panels[0], works, strict=True):
        here = [case for case in cases if case["work_ms"] == work_ms]
        for polled, shade in zip(sorted({case["polled"] for case in here}), (0.35, 0.65, 1.0), strict=False):
            of_size = [case for case in here if case["polled"] == polled]
            members = [case["members"] for case in of_size]
            for side, name, line in (("ours", "gateway", "o-"), ("kafka", "Kafka", "s--")):
                color = {"ours": "#2f6fbf", "kafka": "#b5654a"}[side]
                shares = [case[side][0] for case in of_size]
                axes.plot(members, shares, line, color=color, alpha=shade, label=f"{name}, polls of {polled}")
        numbers = sorted({case["members"] for case in here})
        axes.set_title(f"{work_ms} ms a record")
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.set_xlabel("members")
        axes.set_ylim(0, 1.05)
        axes.grid(axis="y", alpha=0.3)
    panels[0][0].set_ylabel("share of the work done")
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.legend(*panels[0][0].get_legend_handles_labels(), fontsize=8, ncols=6, loc="lower center")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    report = json.loads(Path(sys.argv[1]).read_text())
    draw(report["details"][NAME]["cases"], Path(sys.argv[2]))
