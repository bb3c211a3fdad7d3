#!/usr/bin/env python3
"""What the servers of a host do in the first phases, and how they reach a peer.

    FORSD_TABLE=http://head:7480 phases.py node7 node8

It reads the phase table by libfors, through ctypes, and needs nothing else.
"""

import ctypes
import sys


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("errnum", ctypes.c_int), ("status", ctypes.c_int), ("text", ctypes.c_char * 244)]


class Info(ctypes.Structure):
    _fields_ = [("epoch", ctypes.c_uint64), ("job", ctypes.c_uint64), ("topology_hash", ctypes.c_uint8 * 32)] + [
        (name, ctypes.c_uint32) for name in ("servers", "phases", "lanes", "lmc_max", "crc", "base_lids")]


class Entry(ctypes.Structure):
    _fields_ = [("send_to", ctypes.c_int32), ("recv_from", ctypes.c_int32), ("dlid", ctypes.c_uint16),
                ("lane", ctypes.c_int16), ("src_path_bits", ctypes.c_uint8), ("reserved", ctypes.c_uint8 * 3)]


Table = ctypes.c_void_p
fors = ctypes.CDLL("libfors.so.1")
fors.fors_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(Table), ctypes.POINTER(Error)]
fors.fors_info.argtypes = [Table]
fors.fors_info.restype = ctypes.POINTER(Info)
fors.fors_find.argtypes = [Table, ctypes.c_char_p, ctypes.POINTER(Error)]
fors.fors_find_host.argtypes = [Table, ctypes.c_char_p, ctypes.c_int]
fors.fors_find_phase.argtypes = [Table, ctypes.c_int, ctypes.c_int]
fors.fors_entry.argtypes = [Table, ctypes.c_int, ctypes.c_uint32]
fors.fors_entry.restype = Entry
fors.fors_close.argtypes = [Table]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: phases.py HOST PEER")
    table, err = Table(), Error()
    if fors.fors_open(None, ctypes.byref(table), ctypes.byref(err)) < 0:
        sys.exit(err.text.decode())
    info = fors.fors_info(table).contents
    print(f"epoch {info.epoch}, {info.phases} phases, {'base' if info.base_lids else 'pinned'} LIDs")
    me = -1
    while (me := fors.fors_find_host(table, sys.argv[1].encode(), me)) >= 0:
        for phase in range(min(3, info.phases)):
            e = fors.fors_entry(table, me, phase)
            print(f"server {me} phase {phase}: to {e.send_to} at LID {e.dlid} over lane {e.lane}, from {e.recv_from}")
        peer = fors.fors_find(table, sys.argv[2].encode(), ctypes.byref(err))
        if peer < 0:
            sys.exit(err.text.decode())
        phase = fors.fors_find_phase(table, me, peer)
        if phase >= 0:
            e = fors.fors_entry(table, me, phase)
            print(f"server {me} reaches {peer} in phase {phase}: LID {e.dlid}, source path bits {e.src_path_bits}")
    fors.fors_close(table)


main()
