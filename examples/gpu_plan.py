#!/usr/bin/env python3
"""What a rank does in an exchange of a mixture of experts, step by step.

    PYTHONPATH=/usr/share/forgpu gpu_plan.py traffic.npy 8 3

It reads bytes, a row for each of the ranks, from a file of NumPy's (int64) or, without
NumPy, of text; plans for servers of 8 GPUs, and prints the program of rank 3.
"""

import sys

import forgpu


def read(path):
    if path.endswith(".npy"):
        import numpy
        return numpy.load(path)
    with open(path) as file:
        return [[int(v) for v in line.split(",")] for line in file]


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: gpu_plan.py TRAFFIC GPUS-PER-SERVER RANK")
    traffic, gpus, rank = read(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    servers = len(traffic) // gpus
    planner = forgpu.Planner()
    try:
        options, outlook = planner.choose(traffic, servers, gpus)
        program = planner.plan(traffic, servers, gpus, rank, **options.keywords())
    except forgpu.Error as err:
        sys.exit(str(err))
    print(f"{len(program.lengths)} stages, {outlook.seconds * 1e6:.1f} us, at least {outlook.least * 1e6:.1f}")
    print(f"input {program.input}, output {program.output}, NIC sends from {program.nic_send}, receives into {program.nic_receive}")
    sends = {x.stage: x for x in program.send}
    receives = {x.stage: x for x in program.receive}
    moves = program.before_send + program.after_send + program.local_send
    for stage in range(-1, len(program.lengths) + 1):
        text = [f"{x.bytes} bytes to rank {x.peer} inside" for x in moves if x.stage == stage and x.peer != rank]
        if stage in sends:
            text.append(f"{sends[stage].bytes} to rank {sends[stage].peer}")
        if stage in receives:
            text.append(f"{receives[stage].bytes} from rank {receives[stage].peer}")
        if text:
            print(f"stage {stage}: " + ", ".join(text))


main()
