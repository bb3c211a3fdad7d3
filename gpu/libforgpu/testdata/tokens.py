"""Tries forgpu.py on tokens: kinds of choices, what is refused, both programs; prints their sections."""

import array
import sys

import forgpu

with open(sys.argv[1]) as file:
    rows = [[int(v) for v in line.split(",")] for line in file]
servers, gpus, rank, size = (int(v) for v in sys.argv[2:6])
flat = array.array("i", [v for row in rows for v in row])
square = memoryview(flat).cast("B").cast("i", (len(rows), len(rows[0])))
kinds = [rows, square, square.toreadonly()]
try:
    import numpy
    kinds.append(numpy.array(rows, dtype=numpy.int32))
except ImportError:
    pass
planner = forgpu.Planner()
options, outlook = planner.choose_tokens(square, servers, gpus, size)
assert outlook.complete and outlook.least <= outlook.seconds
both = [planner.plan_tokens(kind, servers, gpus, rank, size, **options.keywords()) for kind in kinds]
assert len({(there.section, back.section) for there, back in both}) == 1
there, back = both[0]
assert there.input == back.output == len(rows) // servers // gpus * size and there.output == back.input and not there.added
for name in ("before_receive", "after_receive", "local_receive"):
    assert len(back.added[name]) == len(getattr(back, name)), name
assert any(any(flags) for flags in back.added.values())
for choices, error in ((flat, TypeError), (array.array("q", [1]), TypeError), (rows[1:], ValueError), ([[0, 1], [1]], ValueError),
                       ([[servers * gpus]] * len(rows), forgpu.Error), ([[-2]] * len(rows), forgpu.Error)):
    try:
        planner.plan_tokens(choices, servers, gpus, rank, size)
    except error:
        continue
    raise AssertionError(f"{choices!r} are taken")
assert planner.plan_tokens([], servers, gpus, rank, size)[0].input == 0
print(there.section.hex())
print(back.section.hex())
