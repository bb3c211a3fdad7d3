"""Tries forgpu.py: kinds of traffic, what is refused, lists and rows; prints a section."""

import array
import sys

import forgpu

with open(sys.argv[1]) as file:
    rows = [[int(v) for v in line.split(",")] for line in file]
gpus, rank = int(sys.argv[2]), int(sys.argv[3])
servers = len(rows) // gpus
options = {"max_stretch": float(sys.argv[4]), "max_stage": int(sys.argv[5]), "fewest": int(sys.argv[6])}
flat = array.array("q", [v for row in rows for v in row])
square = memoryview(flat).cast("B").cast("q", (len(rows), len(rows)))
kinds = [rows, flat, square, square.toreadonly()]
try:
    import numpy
    kinds.append(numpy.array(rows, dtype=numpy.int64))
except ImportError:
    pass
planner = forgpu.Planner()
programs = [planner.plan(kind, servers, gpus, rank, **options) for kind in kinds]
assert all(p.section == programs[0].section for p in programs)
p = programs[0]
assert p.rank == rank and p.gpus == gpus and p.input == sum(rows[rank]) and p.output == sum(row[rank] for row in rows)
words = list(p.rows("send"))
assert [(x.stage | x.peer << 32, x.offset, x.bytes) for x in p.send] == [tuple(words[i:i + 3]) for i in range(0, len(words), 3)]
assert sum(x.bytes for x in p.before_send) == sum(v for to, v in enumerate(rows[rank]) if to // gpus != rank // gpus)
chosen, outlook = planner.choose(flat, servers, gpus, budget=1000.0)
assert outlook.complete and outlook.least <= outlook.seconds and chosen.max_stretch == options["max_stretch"]

for traffic, error in ((array.array("i", [1] * len(flat)), TypeError), (array.array("d", flat), TypeError), (flat[1:], ValueError),
                       ([[-1] * len(rows)] * len(rows), forgpu.Error), ([[0.5] * len(rows)] * len(rows), ValueError)):
    try:
        planner.plan(traffic, servers, gpus, rank)
    except error as err:
        assert not isinstance(err, forgpu.Error) or err.code == -3, err
    else:
        raise AssertionError(f"{traffic!r} is taken")
try:
    planner.plan(flat, servers, gpus, rank, stretch=1.05)
except TypeError as err:
    assert "stretch" in str(err), err
else:
    raise AssertionError("an option that there is not is taken")
try:
    p.unheard
except AttributeError:
    print(p.section.hex())
speeds = [int(v) for v in sys.argv[7].split(",")]
places = planner.nics(speeds, servers, gpus, parts=2)
assert [x.home for x in places if x.nic >= 0] == sorted(x.home for x in places if x.nic >= 0) and max(x.gpu for x in places) == gpus - 1
for rank in range(len(places)):
    print(planner.plan(flat, servers, gpus, rank, **options).section.hex())
assert len(planner.nics(None, servers, gpus)) == len(rows) and planner.plan(flat, servers, gpus, p.rank, **options).section == p.section
for bad in ([1] * (len(rows) - 1), [-1] * len(rows)):
    try:
        planner.nics(bad, servers, gpus)
    except (ValueError, forgpu.Error):
        continue
    raise AssertionError(f"speeds {bad} are taken")
