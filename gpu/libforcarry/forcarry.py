"""Carries the exchanges of a mixture of experts over verbs: libforcarry through ctypes.

    carrier = forcarry.Carrier(servers=8, gpus=8, rank=rank, tokens=4096, choices=8, experts=256,
                               row=7168 * 2, allgather=comm.allgather)
    got = carrier.dispatch(x, topk_idx, topk_weights)
    ...  # y, a row for each of len(got.source), of the experts that got.topk_idx names
    combined = carrier.combine(y)

allgather takes the bytes of a rank and returns those of all, in their order: mpi4py's does, and with
torch.distributed: lambda own: (dist.all_gather_object(all := [None] * dist.get_world_size(), own), all)[1].
Arrays are any buffers, or torch's tensors, one row after the other. It needs Python's own library alone. With
cuda=NUMBER, a GPU, x, y and combined are tensors of that GPU, and got.x is an address there.
"""

import array
import collections
import ctypes

import forgpu

Received = collections.namedtuple("Received", "x topk_idx topk_weights source token tokens_per_expert")
Counts = collections.namedtuple("Counts", "exchanges repeats sent dead own")
BFLOAT16, FLOAT32 = 0, 1


class Error(Exception):
    """A failed call; code is one of FORCARRY_E…"""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 252)]


_Gather = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_NUMBERS = (("servers", ctypes.c_int32), ("gpus", ctypes.c_int32), ("rank", ctypes.c_int32), ("tokens", ctypes.c_int32), ("choices", ctypes.c_int32),
            ("experts", ctypes.c_int32), ("type", ctypes.c_int32), ("retry", ctypes.c_int32), ("retries", ctypes.c_int32), ("port", ctypes.c_int32),
            ("gid", ctypes.c_int32), ("level", ctypes.c_int32), ("row", ctypes.c_int64), ("row_back", ctypes.c_int64), ("rows", ctypes.c_int64),
            ("slots", ctypes.c_int64), ("patience", ctypes.c_int64))


class _Options(ctypes.Structure):
    _fields_ = [*_NUMBERS, ("plan", forgpu.Options), ("device", ctypes.c_char_p), ("inside", ctypes.c_void_p), ("allgather", _Gather), ("context", ctypes.c_void_p)]


class _Received(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in ("x", "topk_idx", "topk_weights", "source", "token", "per_expert")]


class _Counts(ctypes.Structure):
    _fields_ = [("exchanges", ctypes.c_int64), ("repeats", ctypes.c_int64), ("sent", ctypes.c_int64), ("dead", ctypes.c_int32), ("own", ctypes.c_int32)]


_lib = ctypes.CDLL("libforcarry.so.1")
_lib.forcarry_open.restype = ctypes.c_void_p
_lib.forcarry_open.argtypes = [ctypes.POINTER(_Options), ctypes.POINTER(_Error)]
_lib.forcarry_close.argtypes = [ctypes.c_void_p]
_lib.forcarry_cuda.restype = ctypes.c_void_p
_lib.forcarry_cuda.argtypes = [ctypes.c_int, ctypes.POINTER(_Error)]
_lib.forcarry_dispatch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_Received), ctypes.POINTER(_Error)]
_lib.forcarry_combine.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_Error)]
_lib.forcarry_count.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Counts)]


def _memory(data, name, writable=False):
    """The address and the bytes of an array, and what keeps it alive."""
    if hasattr(data, "data_ptr"):
        if not data.is_contiguous():
            raise ValueError(f"{name} has gaps: want rows one after the other")
        return data.data_ptr(), data.numel() * data.element_size(), data
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError(f"{name} has gaps: want rows one after the other")
    if view.nbytes == 0:
        return None, 0, data
    flat = view.cast("B")
    if flat.readonly and writable:
        raise TypeError(f"{name} cannot be written")
    kind = ctypes.c_char * flat.nbytes
    memory = kind.from_buffer_copy(flat) if flat.readonly else kind.from_buffer(flat)
    return ctypes.addressof(memory), flat.nbytes, memory


def _numbers(data, code, name):
    """An array of 64-bit integers ("q") or of 32-bit reals ("f"); or rows of numbers."""
    if isinstance(data, (list, tuple)):
        return array.array(code, [v for row in data for v in row])
    if hasattr(data, "data_ptr"):
        if data.element_size() != array.array(code).itemsize or data.is_floating_point() != (code == "f"):
            raise TypeError(f"{name} of type {data.dtype}: want {'float32' if code == 'f' else 'int64'}")
        return data.cpu() if getattr(data, "is_cuda", False) else data
    form = memoryview(data).format.lstrip("@=<")
    if form not in (("f",) if code == "f" else ("q", "l")) or memoryview(data).itemsize != array.array(code).itemsize:
        raise TypeError(f"{name} of type {form!r}: want {'float32' if code == 'f' else 'int64'}")
    return data


def _view(address, form, *shape):
    count = 1
    for n in shape:
        count *= n
    if count == 0:
        return memoryview(b"").cast(form)
    size = 1 if form == "B" else 4
    return memoryview((ctypes.c_char * (count * size)).from_address(address)).cast("B").cast(form, shape)


class Carrier:
    """A rank's carrier. Options are those of struct forcarry_options, and plan, those of struct
    forgpu_options, by name; patience is in seconds. All ranks open it, and make the same calls."""

    def __init__(self, allgather, cuda=None, device=None, patience=0, plan=None, **options):
        self._carrier = None
        unknown = options.keys() - {name for name, _ in _NUMBERS}
        if unknown:
            raise TypeError(f"there is no option {min(unknown)}")
        err, self._failure = _Error(), None
        inside = None if cuda is None else _lib.forcarry_cuda(cuda, ctypes.byref(err))
        if cuda is not None and not inside:
            raise Error(err.code, err.text.decode())

        def gather(_, own, everyone, size):
            try:
                parts = allgather(ctypes.string_at(own, size))
                ctypes.memmove(everyone, b"".join(parts), size * len(parts))
                return 0
            except Exception as failure:  # it must not cross the library
                self._failure = failure
                return 1

        self._gather = _Gather(gather)
        o = _Options(plan=forgpu.Options(**(plan or {})), device=device.encode() if device else None, inside=inside, allgather=self._gather,
                     patience=round(patience * 1e9), **options)
        self._carrier = _lib.forcarry_open(ctypes.byref(o), ctypes.byref(err))
        if not self._carrier:
            raise Error(err.code, err.text.decode()) from self._failure
        self.choices, self.row, self.row_back = o.choices, o.row, o.row_back or o.row
        self.local_experts, self._cuda, self._rows, self._tokens = o.experts // (o.servers * o.gpus), cuda is not None, 0, 0

    def close(self):
        carrier, self._carrier = self._carrier, None
        if carrier:
            _lib.forcarry_close(carrier)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _check(self, code, err):
        if code < 0:
            raise Error(code, err.text.decode())

    def dispatch(self, x, topk_idx, topk_weights=None):
        """Sends tokens, rows of x, to the ranks of their experts. topk_idx has a row of experts for
        each, 64-bit integers, -1 for none; topk_weights 32-bit reals. What it returns is valid until the
        next dispatch: rows by source and token, with the numbers of the experts on this rank."""
        idx, size, keep = _memory(_numbers(topk_idx, "q", "topk_idx"), "topk_idx")
        tokens = size // 8 // self.choices
        data, bytes_of_x, keep_x = _memory(x, "x")
        if size != 8 * tokens * self.choices or bytes_of_x != tokens * self.row:
            raise ValueError(f"x has {bytes_of_x} bytes and topk_idx {size // 8} numbers: want rows of {self.row} bytes, and of {self.choices} numbers, as many of each")
        weights, keep_weights = None, None
        if topk_weights is not None:
            weights, size, keep_weights = _memory(_numbers(topk_weights, "f", "topk_weights"), "topk_weights")
            if size != 4 * tokens * self.choices:
                raise ValueError(f"topk_weights has {size // 4} numbers: want {tokens * self.choices}")
        got, err = _Received(), _Error()
        self._check(_lib.forcarry_dispatch(self._carrier, data, tokens, idx, weights, ctypes.byref(got), ctypes.byref(err)), err)
        del keep, keep_x, keep_weights
        self._rows, self._tokens, n, k = got.rows, tokens, got.rows, self.choices
        return Received(got.x if self._cuda else _view(got.x, "B", n, self.row), _view(got.topk_idx, "i", n, k), _view(got.topk_weights, "f", n, k),
                        _view(got.source, "i", n), _view(got.token, "i", n), list(_view(got.per_expert, "i", self.local_experts)))

    def combine(self, y, combined=None):
        """Sums rows, one for each received, at the sources of their tokens. Writes the sums to combined,
        or to new memory, and returns it."""
        data, size, keep = _memory(y, "y")
        if size != self._rows * self.row_back:
            raise ValueError(f"y has {size} bytes: want {self._rows} rows of {self.row_back}")
        if combined is None and self._cuda:
            raise ValueError("combined is missing: want a tensor of the GPU")
        combined = bytearray(self._tokens * self.row_back) if combined is None else combined
        out, size, keep_out = _memory(combined, "combined", writable=True)
        if size != self._tokens * self.row_back:
            raise ValueError(f"combined has {size} bytes: want {self._tokens} rows of {self.row_back}")
        err = _Error()
        self._check(_lib.forcarry_combine(self._carrier, data, out, ctypes.byref(err)), err)
        del keep, keep_out
        return combined

    def counts(self):
        counts = _Counts()
        _lib.forcarry_count(self._carrier, ctypes.byref(counts))
        return Counts(counts.exchanges, counts.repeats, counts.sent, counts.dead, counts.own)
