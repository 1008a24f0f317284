"""Which small files of a growing table are merged when: in tiers, so that large ones are rewritten rarely.

Each micro-batch adds a small file. Merged into today's one large file every time, a day's bytes would be written again
and again. So files are merged with others of their tier only, and leave it together:

    tier 1    each time: what is below 256 KiB
    tier 2    when what is below 4 MiB adds up to 8 MiB
    tier 3    when what is below 64 MiB adds up to 128 MiB

A byte is rewritten once or twice in each tier it passes, whatever the day has grown to, and a day is never in more than
some dozens of files.
"""

from __future__ import annotations

from collections.abc import Sequence

#: The sizes in bytes from which a file has left a tier.
TIERS = (256 * 1024, 4 * 1_048_576, 64 * 1_048_576)


def due_target(sizes: Sequence[int], tiers: Sequence[int] = TIERS) -> int | None:
    """The greatest size (bytes) of the files into which delta-rs is to pack files of these sizes now; None: no need.

    delta-rs packs whatever is not larger than the target, the largest first, and leaves alone what stays alone. So the
    target is such that a file which has left its tier by a quarter is too large to take even the smallest one in.
    """
    first, *higher = tiers
    for tier in (*reversed(higher), first):
        small = [size for size in sizes if size < tier]
        if len(small) > 1 and (tier == first or sum(small) >= 2 * tier):
            full = [size for size in sizes if size >= tier * 5 // 4]
            return min([2 * tier, *(size + min(small) - 1 for size in full)])
    return None
