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
Place = collections.namedtuple("Place", "gpu nic home")
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
                ("fewest", ctypes.c_int32), ("groups", ctypes.c_int32)]

    def __init__(self, **options):
        unknown = options.keys() - {name for name, _ in self._fields_}
        if unknown:
            raise TypeError(f"there is no option {min(unknown)}")
        super().__init__(**options)

    def keywords(self):
        """The options as arguments of Planner.plan."""
        return {name: getattr(self, name) for name, _ in self._fields_ if getattr(self, name)}


class _Place(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_int32), ("nic", ctypes.c_int32), ("home", ctypes.c_int32)]


class _Piece(ctypes.Structure):
    _fields_ = [("stage", ctypes.c_int32), ("peer", ctypes.c_int32), ("offset", ctypes.c_int64), ("bytes", ctypes.c_int64)]


class _List(ctypes.Structure):
    _fields_ = [("at", ctypes.POINTER(_Piece)), ("count", ctypes.c_size_t)]


_SIZES = ("input", "nic_send", "nic_receive", "output")
_LISTS = ("before_send", "before_receive", "after_send", "after_receive", "local_send", "local_receive", "send", "receive")


class _Program(ctypes.Structure):
    _fields_ = ([("rank", ctypes.c_int32), ("gpus", ctypes.c_int32)] + [(name, ctypes.c_int64) for name in _SIZES] +
                [(name, _List) for name in _LISTS] + [("lengths", ctypes.POINTER(ctypes.c_int64)), ("stages", ctypes.c_size_t),
                                                      ("add", ctypes.POINTER(ctypes.c_uint8) * 3)])


class _Tokens(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_int64), ("each", ctypes.c_int32), ("choices", ctypes.c_int32), ("ranks", ctypes.c_void_p)]


class _Outlook(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_double), ("least", ctypes.c_double), ("complete", ctypes.c_int32), ("reserved", ctypes.c_int32)]


_lib = ctypes.CDLL("libforgpu.so.1")
_lib.forgpu_open.restype = ctypes.c_void_p
_lib.forgpu_close.argtypes = [ctypes.c_void_p]
_lib.forgpu_nics.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32,
                             ctypes.POINTER(ctypes.POINTER(_Place)), ctypes.POINTER(_Error)]
_lib.forgpu_plan.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32,
                             ctypes.POINTER(Options), ctypes.POINTER(_Program), ctypes.POINTER(_Error)]
_lib.forgpu_choose.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64,
                               ctypes.POINTER(Options), ctypes.POINTER(_Outlook), ctypes.POINTER(_Error)]
_lib.forgpu_plan_tokens.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(_Tokens), ctypes.c_int32,
                                    ctypes.POINTER(Options), ctypes.POINTER(_Program), ctypes.POINTER(_Program), ctypes.POINTER(_Error)]
_lib.forgpu_choose_tokens.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(_Tokens), ctypes.c_int64,
                                      ctypes.POINTER(Options), ctypes.POINTER(_Outlook), ctypes.POINTER(_Error)]
_lib.forgpu_encode.argtypes = [ctypes.POINTER(_Program), ctypes.c_void_p, ctypes.c_size_t]
_lib.forgpu_encode.restype = ctypes.c_size_t


class Program:
    """What one rank does. Its lists are of pieces; rows(name) has them as a buffer of 64-bit
    words instead, for NumPy: stage and peer in the first, then offset and bytes. On the way back of
    tokens, added has for each piece of before_receive, after_receive and local_receive, by name, 1
    if it is added to what its bytes hold."""

    def __init__(self, raw):
        self.rank, self.gpus = raw.rank, raw.gpus
        for name in _SIZES:
            setattr(self, name, getattr(raw, name))
        self.lengths = raw.lengths[:raw.stages]
        self._pieces = {}
        for name in _LISTS:
            pieces = getattr(raw, name)
            self._pieces[name] = ctypes.string_at(pieces.at, pieces.count * ctypes.sizeof(_Piece)) if pieces.count else b""
        self.added = {name: bytes(add[:getattr(raw, name).count])
                      for name, add in zip(("before_receive", "after_receive", "local_receive"), raw.add) if add}
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


def _tokens(choices, ranks, token_bytes):
    """The ranks of tokens' experts as the library takes them, and what keeps them alive."""
    try:
        view = memoryview(choices)
    except TypeError:
        rows = [[_whole(v) for v in row] for row in choices]
        if len({len(row) for row in rows}) > 1:
            raise ValueError("tokens have different numbers of choices: fill up with -1")
        view = memoryview(array.array("i", [v for row in rows for v in row])).cast("B")
        view = view.cast("i", (len(rows), len(rows[0]))) if view.nbytes else None
    if view is None:
        return _Tokens(token_bytes, 0, 1, None), None
    if view.itemsize != 4 or view.format.lstrip("@=<") not in ("i", "l") or view.ndim != 2 or not view.c_contiguous:
        raise TypeError(f"choices of type {view.format!r} in {view.ndim} dimensions: want rows of 32-bit integers, one after the other")
    if view.shape[0] % ranks:
        raise ValueError(f"{view.shape[0]} tokens: want as many for each of {ranks} ranks")
    flat = view.cast("B")
    kind = ctypes.c_char * flat.nbytes
    memory = kind.from_buffer_copy(flat) if flat.readonly else kind.from_buffer(flat)
    return _Tokens(token_bytes, view.shape[0] // ranks, view.shape[1], ctypes.addressof(memory)), memory


class Planner:
    """Plans, and keeps its memory from call to call."""

    def __init__(self):
        self._planner = _lib.forgpu_open()
        if not self._planner:
            raise MemoryError("libforgpu has no memory")

    def __del__(self):
        if getattr(self, "_planner", None):
            _lib.forgpu_close(self._planner)

    def nics(self, speeds, servers, gpus, parts=1):
        """States the speeds of the NICs, of each GPU one, 0 for dead ones, or None if all are well,
        for all later calls. The fastest NIC is divided into parts channels. Ranks are then places;
        returns those of all servers."""
        places, err = ctypes.POINTER(_Place)(), _Error()
        if speeds is None:
            memory = None
        elif len(speeds) != servers * gpus:
            raise ValueError(f"{len(speeds)} speeds: want one for each of {servers * gpus} NICs")
        else:
            memory = (ctypes.c_int64 * len(speeds))(*speeds)
        each = _lib.forgpu_nics(self._planner, servers, gpus, memory, parts, ctypes.byref(places), ctypes.byref(err))
        if each < 0:
            raise Error(each, err.text.decode())
        if memory is None:
            return [Place(rank % gpus, rank % gpus, rank) for rank in range(servers * gpus)]
        return [Place(x.gpu, x.nic, x.home) for x in places[:servers * each]]

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

    def plan_tokens(self, choices, servers, gpus, rank, token_bytes, **options):
        """The programs of a rank for tokens that are sent once to each server, and for their way
        back. choices are the ranks of each token's experts, -1 for none: rows of 32-bit integers,
        a token each, those of rank 0 first, as many of each rank."""
        there, back, err = _Program(), _Program(), _Error()
        tokens, memory = _tokens(choices, servers * gpus, token_bytes)
        code = _lib.forgpu_plan_tokens(self._planner, servers, gpus, ctypes.byref(tokens), rank, ctypes.byref(Options(**options)),
                                       ctypes.byref(there), ctypes.byref(back), ctypes.byref(err))
        del memory
        if code < 0:
            raise Error(code, err.text.decode())
        return Program(there), Program(back)

    def choose_tokens(self, choices, servers, gpus, token_bytes, budget=0.0, **options):
        """What choose is for plan, for plan_tokens."""
        chosen, outlook, err = Options(**options), _Outlook(), _Error()
        tokens, memory = _tokens(choices, servers * gpus, token_bytes)
        code = _lib.forgpu_choose_tokens(self._planner, servers, gpus, ctypes.byref(tokens), round(budget * 1e9),
                                         ctypes.byref(chosen), ctypes.byref(outlook), ctypes.byref(err))
        del memory
        if code < 0:
            raise Error(code, err.text.decode())
        return chosen, Outlook(outlook.seconds, outlook.least, bool(outlook.complete))
