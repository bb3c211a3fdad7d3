"""A rank on a carrier in Python: ranks.py DIRECTORY RANK SERVERS GPUS. It checks some frames and refusals."""

import array
import os
import random
import struct
import sys
import time

import forcarry

directory, (rank, servers, gpus) = sys.argv[1], map(int, sys.argv[2:])
ranks, tokens, k, hidden = servers * gpus, 9, 3, 5
experts, turn = 2 * ranks, 0


def gather(own):
    global turn
    turn += 1
    with open(f"{directory}/new.{rank}", "wb") as file:
        file.write(own)
    os.rename(f"{directory}/new.{rank}", f"{directory}/{turn}.{rank}")
    parts = []
    for r in range(ranks):
        while not os.path.exists(f"{directory}/{turn}.{r}"):
            time.sleep(.005)
        with open(f"{directory}/{turn}.{r}", "rb") as file:
            parts.append(file.read())
    return parts


def frame(number):
    """What all ranks send in a frame: for each, rows of experts, weights and elements."""
    draw = random.Random(number)
    sent = []
    for _ in range(ranks):
        n = draw.randrange(tokens + 1)
        sent.append([([draw.randrange(-1, experts) for _ in range(k)], [draw.randrange(100) / 4 for _ in range(k)],
                      [draw.randrange(1000) for _ in range(hidden)]) for _ in range(n)])
    return sent


def refused(text, call, *args, kind=forcarry.Error):
    try:
        call(*args)
    except kind as err:
        assert text in str(err), str(err)
        return
    raise AssertionError(f"no error: want {text}")


with forcarry.Carrier(gather, servers=servers, gpus=gpus, rank=rank, tokens=tokens, choices=k, experts=experts, row=4 * hidden, type=forcarry.FLOAT32, patience=30) as carrier:
    refused("there is no dispatch", carrier.combine, b"")
    refused("token 0, choice 1 is expert", carrier.dispatch, bytes(4 * hidden), [[0, experts, 1]])
    refused("token 0, choice 2 is expert -2", carrier.dispatch, bytes(4 * hidden), [[0, 1, -2]])
    refused("10 tokens: want 0 to 9", carrier.dispatch, bytes(40 * hidden), [[0, 1, 2]] * 10)
    refused("want rows of 20 bytes", carrier.dispatch, bytes(19), [[0, 1, 2]], kind=ValueError)
    refused("topk_weights has 2 numbers", carrier.dispatch, bytes(20), [[0, 1, 2]], [[1, 2]], kind=ValueError)
    refused("topk_idx of type 'i'", carrier.dispatch, bytes(20), array.array("i", [0, 1, 2]), kind=TypeError)
    rows = sums = 0
    for number in range(6):
        sent = frame(number)
        own = sent[rank]
        got = carrier.dispatch(b"".join(struct.pack(f"{hidden}f", *x) for _, _, x in own), [idx for idx, _, _ in own] or array.array("q"), [w for _, w, _ in own] or None)
        at = 0
        for r in range(ranks):
            for t, (idx, weights, x) in enumerate(sent[r]):
                here = [e - 2 * rank if e // 2 == rank else -1 for e in idx]
                if max(here) < 0:
                    continue
                assert (got.source[at], got.token[at]) == (r, t)
                assert got.topk_idx.tolist()[at] == here
                assert got.topk_weights.tolist()[at] == [w if e >= 0 else 0 for w, e in zip(weights, here)]
                assert list(struct.unpack(f"{hidden}f", bytes(got.x)[at * 4 * hidden:(at + 1) * 4 * hidden])) == x
                at += 1
        assert at == len(got.source)
        assert got.tokens_per_expert == [sum(any(e == 2 * rank + i for e in idx) for r in sent for idx, _, _ in r) for i in range(2)]
        refused("y has 1 bytes", carrier.combine, b"x", kind=ValueError)
        y = array.array("f")
        for row in range(at):
            y.extend(v * (rank + 1) for v in struct.unpack(f"{hidden}f", bytes(got.x)[row * 4 * hidden:(row + 1) * 4 * hidden]))
        combined = carrier.combine(y)
        for t, (idx, _, x) in enumerate(own):
            factor = sum(r + 1 for r in {e // 2 for e in idx if e >= 0})
            assert list(struct.unpack(f"{hidden}f", combined[t * 4 * hidden:(t + 1) * 4 * hidden])) == [v * factor for v in x]
            sums += hidden
        rows += at
    counts = carrier.counts()
    assert counts.exchanges == 12 and counts.dead == counts.repeats == 0
refused("there is no CUDA driver", forcarry.Carrier, gather, 0) if not os.path.exists("/dev/nvidia0") else None
print(f"rows {rows} sums {sums}")
