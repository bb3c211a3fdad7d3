"""A GPU plans its part of an all-to-all exchange: libforgpu through ctypes.

    planner = forgpu.Planner()
    program = planner.plan(traffic, servers=8, gpus=8, rank=3, max_stretch=1.05)
    for x in program.send:
        ...  # in x.stage, x.bytes of the NIC's sending buffer from x.offset on to rank x.peer

The traffic is what each rank has for each other, as 64-bit integers, [source][destination]:
a NumPy array, array.array("q"), or any buffer; or rows of numbers. It needs Python's own
library alone. A planner serves one thread at a time.
"""

import array
import collections
import ctypes

Piece = collections.namedtuple("Piece", "stage peer offset bytes")
Outlook = collections.namedtuple("Outlook", "seconds least complete")


class Error(Exception):
    """What the library refuses; code is one of FORGPU_E…"""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 252)]


class Options(ctypes.Structure):
    """How a plan is made: struct forgpu_options."""

    _fields_ = [("grain", ctypes.c_int64), ("max_stretch", ctypes.c_double), ("max_stage", ctypes.c_int64),
                ("b1", ctypes.c_double), ("b2", ctypes.c_double), ("latency", ctypes.c_int64),
                ("fewest", ctypes.c_int32), ("reserved", ctypes.c_int32)]

    def __init__(self, **options):
        unknown = options.keys() - {name for name, _ in self._fields_}
        if unknown:
            raise TypeError(f"there is no option {min(unknown)}")
        super().__init__(**options)

    def keywords(self):
        """The options as arguments of Planner.plan."""
        return {name: getattr(self, name) for name, _ in self._fields_ if name != "reserved" and getattr(self, name)}


class _Piece(ctypes.Structure):
    _fields_ = [("stage", ctypes.c_int32), ("peer", ctypes.c_int32), ("offset", ctypes.c_int64), ("bytes", ctypes.c_int64)]


class _List(ctypes.Structure):
    _fields_ = [("at", ctypes.POINTER(_Piece)), ("count", ctypes.c_size_t)]


_SIZES = ("input", "nic_send", "nic_receive", "output")
_LISTS = ("before_send", "before_receive", "after_send", "after_receive", "local_send", "local_receive", "send", "receive")


class _Program(ctypes.Structure):
    _fields_ = ([("rank", ctypes.c_int32), ("gpus", ctypes.c_int32)] + [(name, ctypes.c_int64) for name in _SIZES] +
                [(name, _List) for name in _LISTS] + [("lengths", ctypes.POINTER(ctypes.c_int64)), ("stages", ctypes.c_size_t)])


class _Outlook(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_double), ("least", ctypes.c_double), ("complete", ctypes.c_int32), ("reserved", ctypes.c_int32)]


_lib = ctypes.CDLL("libforgpu.so.1")
_lib.forgpu_open.restype = ctypes.c_void_p
_lib.forgpu_close.argtypes = [ctypes.c_void_p]
_lib.forgpu_plan.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32,
                             ctypes.POINTER(Options), ctypes.POINTER(_Program), ctypes.POINTER(_Error)]
_lib.forgpu_choose.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64,
                               ctypes.POINTER(Options), ctypes.POINTER(_Outlook), ctypes.POINTER(_Error)]
_lib.forgpu_encode.argtypes = [ctypes.POINTER(_Program), ctypes.c_void_p, ctypes.c_size_t]
_lib.forgpu_encode.restype = ctypes.c_size_t


class Program:
    """What one rank does. Its lists are of pieces; rows(name) has them as a buffer of 64-bit
    words instead, for NumPy: stage and peer in the first, then offset and bytes."""

    def __init__(self, raw):
        self.rank, self.gpus = raw.rank, raw.gpus
        for name in _SIZES:
            setattr(self, name, getattr(raw, name))
        self.lengths = raw.lengths[:raw.stages]
        self._pieces = {}
        for name in _LISTS:
            pieces = getattr(raw, name)
            self._pieces[name] = ctypes.string_at(pieces.at, pieces.count * ctypes.sizeof(_Piece)) if pieces.count else b""
        size = _lib.forgpu_encode(ctypes.byref(raw), None, 0)
        section = ctypes.create_string_buffer(size)
        _lib.forgpu_encode(ctypes.byref(raw), section, size)
        self.section = section.raw  # the rank's part of an exchange's binary form

    def rows(self, name):
        return memoryview(self._pieces[name]).cast("q")

    def __getattr__(self, name):
        if name not in _LISTS:
            raise AttributeError(name)
        data = self._pieces[name]
        return [Piece(x.stage, x.peer, x.offset, x.bytes) for x in (_Piece * (len(data) // ctypes.sizeof(_Piece))).from_buffer_copy(data)]


def _whole(value):
    if int(value) != value:
        raise ValueError(f"traffic of {value} bytes: want whole numbers")
    return int(value)


def _matrix(traffic, ranks):
    """The traffic as memory of the library: a pointer, and what keeps it alive."""
    try:
        view = memoryview(traffic)
    except TypeError:
        view = memoryview(array.array("q", [_whole(v) for row in traffic for v in row]))
    if view.itemsize != 8 or view.format.lstrip("@=<") not in ("q", "l"):
        raise TypeError(f"traffic of type {view.format!r}: want 64-bit integers")
    if not view.c_contiguous or view.nbytes != 8 * ranks * ranks:
        raise ValueError(f"traffic of {view.nbytes} bytes: want {ranks} rows of {ranks} integers of 8 bytes, one after the other")
    flat = view.cast("B")
    kind = ctypes.c_char * flat.nbytes
    return kind.from_buffer_copy(flat) if flat.readonly else kind.from_buffer(flat)


class Planner:
    """Plans, and keeps its memory from call to call."""

    def __init__(self):
        self._planner = _lib.forgpu_open()
        if not self._planner:
            raise MemoryError("libforgpu has no memory")

    def __del__(self):
        if getattr(self, "_planner", None):
            _lib.forgpu_close(self._planner)

    def plan(self, traffic, servers, gpus, rank, **options):
        """The program of a rank. Options are those of struct forgpu_options."""
        program, err = _Program(), _Error()
        memory = _matrix(traffic, servers * gpus)
        code = _lib.forgpu_plan(self._planner, servers, gpus, ctypes.addressof(memory), rank, ctypes.byref(Options(**options)),
                                ctypes.byref(program), ctypes.byref(err))
        if code < 0:
            raise Error(code, err.text.decode())
        return Program(program)

    def choose(self, traffic, servers, gpus, budget=0.0, **options):
        """The options with which the exchange is estimated to take the least time, and the
        outlook. budget is in seconds, 0 for none."""
        chosen, outlook, err = Options(**options), _Outlook(), _Error()
        memory = _matrix(traffic, servers * gpus)
        code = _lib.forgpu_choose(self._planner, servers, gpus, ctypes.addressof(memory), round(budget * 1e9),
                                  ctypes.byref(chosen), ctypes.byref(outlook), ctypes.byref(err))
        if code < 0:
            raise Error(code, err.text.decode())
        return chosen, Outlook(outlook.seconds, outlook.least, bool(outlook.complete))
