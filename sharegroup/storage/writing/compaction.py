"""Decides when small files of an append-only table are merged: in tiers, so that large files are rewritten rarely.

Each micro-batch adds a small file. Merging it into the day's one large file would rewrite the day's bytes each time.
Files are therefore merged in tiers. A merge at a tier covers only the files below the tier's size:

    tier 1    each time: files below 256 KiB
    tier 2    when the files below 4 MiB add up to 8 MiB
    tier 3    when the files below 64 MiB add up to 128 MiB

Of the tiers that are due, the highest one is merged. The files that a merge at tier 2 or 3 writes are mostly larger
than the tier's size. A byte is therefore rewritten only once or twice at each of these tiers, however large the day is.
A day never has more than some dozens of files.
"""

from collections.abc import Sequence

#: For each tier, the size in bytes from which a file is too large for the tier.
TIERS = (256 * 1024, 4 * 1_048_576, 64 * 1_048_576)


def due_target(sizes: Sequence[int], tiers: Sequence[int] = TIERS) -> int | None:
    """Return the target size in bytes for delta-rs to merge files of these sizes now; None if no merge is due.

    The merge is that of the highest tier that is due. A file that exceeds this tier's size by a quarter or more must
    not be rewritten. delta-rs leaves a file unchanged if this file and the smallest other file together exceed the
    target. The target is therefore less than the sum of these two sizes, for each file that must not be rewritten.
    """
    first, *higher = tiers
    for tier in (*reversed(higher), first):
        small = [size for size in sizes if size < tier]
        if len(small) > 1 and (tier == first or sum(small) >= 2 * tier):
            full = [size for size in sizes if size >= tier * 5 // 4]
            return min([2 * tier, *(size + min(small) - 1 for size in full)])
    return None
