package photonic

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Time is a duration in picoseconds: at 800 Gb/s a byte takes ten.
type Time int64

// Microsecond is the unit in which times are reported.
const Microsecond Time = 1_000_000

// US is the time in microseconds.
func (t Time) US() float64 { return float64(t) / float64(Microsecond) }

// MarshalJSON writes the time in microseconds, exactly.
func (t Time) MarshalJSON() ([]byte, error) {
	whole, rest := t/Microsecond, t%Microsecond
	if rest == 0 {
		return strconv.AppendInt(nil, int64(whole), 10), nil
	}
	text := fmt.Sprintf("%d.%06d", whole, max(rest, -rest))
	if t < 0 && whole == 0 {
		text = "-" + text
	}
	return []byte(strings.TrimRight(text, "0")), nil
}

// UnmarshalJSON reads microseconds, up to half of the range of Time.
func (t *Time) UnmarshalJSON(text []byte) error {
	// An exponent could ask for a number of any length.
	us, ok := new(big.Rat), len(text) <= 40 && !bytes.ContainsAny(text, "eE")
	if ok {
		us, ok = us.SetString(string(text))
	}
	if !ok {
		return fmt.Errorf("%.40s is not a time in microseconds: want a decimal number of at most 40 digits", text)
	}
	us.Mul(us, big.NewRat(2*int64(Microsecond), 1))
	us.Add(us, big.NewRat(1, 1)) // to the nearest picosecond
	ps := new(big.Int).Div(us.Num(), new(big.Int).Lsh(us.Denom(), 1))
	if ps.BitLen() > 62 {
		return fmt.Errorf("%s µs is too long", text)
	}
	*t = Time(ps.Int64())
	return nil
}

// Micros converts microseconds to a Time, rounded to the nearest picosecond.
func Micros(us float64) Time { return Time(math.Round(us * float64(Microsecond))) }

// The largest instances that are planned.
const (
	// MaxGPUs is the most GPUs for degree 1 and messages of one size.
	MaxGPUs = 4096
	// MaxWide is the most GPUs for higher degrees.
	MaxWide = 1024
	// MaxVaried is the most GPUs for messages of many sizes, and for topologies
	// that are not circulant.
	MaxVaried = 128
	// MaxDegree is the most switches.
	MaxDegree = 16
	// MaxChunks is the most chunks of all messages together if their sizes differ.
	MaxChunks = 1 << 18
	// maxMoves is the most moves of single chunks over a link in a plan. Plans with more
	// are planned in rounds or discarded.
	maxMoves = 12 << 20
	// maxReconfig is the longest reconfiguration: ten minutes.
	maxReconfig = 600 * 1_000_000 * Microsecond
	// maxTime is the longest time to send a message to all other GPUs one after another:
	// an hour. It keeps costs below maxCost.
	maxTime = 3600 * 1_000_000 * Microsecond
	maxCost = 1 << 62
)

// Link is the cost model of a link (paper, section 2.1): a chunk takes α plus its
// bytes over the bandwidth; a message is sent in chunks, one after another.
type Link struct {
	Alpha Time    `json:"alpha_us"` // α, of each chunk on each hop
	Gbps  float64 `json:"gbps"`     // bandwidth, 1/β
	Chunk int64   `json:"chunk"`    // bytes of a chunk; the last one of a message may be smaller
}

// ChunkTime is the time of one chunk of so many bytes on one hop.
func (l Link) ChunkTime(bytes int64) Time {
	return l.Alpha + Time(math.Ceil(float64(bytes)*8000/l.Gbps))
}

// Chunks is the number of chunks of a message.
func (l Link) Chunks(bytes int64) int64 { return (bytes + l.Chunk - 1) / l.Chunk }

// Time is the time of a message of so many bytes on one hop.
func (l Link) Time(bytes int64) Time {
	full, rest := bytes/l.Chunk, bytes%l.Chunk
	t := Time(full) * l.ChunkTime(l.Chunk)
	if rest > 0 {
		t += l.ChunkTime(rest)
	}
	return t
}

// DefaultLink and DefaultMessage are the paper's setting (section 5.1).
var DefaultLink = Link{Alpha: Microsecond / 2, Gbps: 800, Chunk: 4_000_000}

// DefaultMessage is the paper's message in bytes.
const DefaultMessage = 32_000_000

// Instance is an exchange to be planned.
type Instance struct {
	GPUs     int     `json:"gpus"`        // n
	Degree   int     `json:"degree"`      // k
	Reconfig Time    `json:"reconfig_us"` // R
	Link     Link    `json:"link"`
	Message  int64   `json:"message"`         // bytes from each GPU to each other, or their mean
	Sizes    []int64 `json:"sizes,omitempty"` // [source][destination] bytes if they differ; the diagonal is 0
}

// Check returns an error if the instance is invalid.
func (in *Instance) Check() error {
	n := in.GPUs
	most := MaxGPUs
	switch {
	case in.Sizes != nil:
		most = MaxVaried
	case in.Degree > 1:
		most = MaxWide
	}
	switch l := in.Link; {
	case in.Degree < 1 || in.Degree > MaxDegree:
		return fmt.Errorf("plan %d GPUs on %d switches: want a degree from 1 to %d", n, in.Degree, MaxDegree)
	case n < 2 || n > most:
		return fmt.Errorf("plan %d GPUs of degree %d: want from 2 to %d GPUs (degree 1: %d, higher degrees: %d, messages of many sizes: %d)", n, in.Degree, most, MaxGPUs, MaxWide, MaxVaried)
	case in.Reconfig < 0 || in.Reconfig > maxReconfig:
		return fmt.Errorf("a reconfiguration of %g µs: want from 0 to ten minutes", in.Reconfig.US())
	case l.Alpha < 0 || l.Alpha > maxTime || !(l.Gbps >= 0.001 && l.Gbps <= 1e6) || l.Chunk < 1 || l.Chunk > 1<<40:
		return fmt.Errorf("a link with α = %g µs, %g Gb/s and chunks of %d bytes: want α from 0 to an hour, from 0.001 to 1e6 Gb/s, and chunks from 1 byte to 1 TiB", l.Alpha.US(), l.Gbps, l.Chunk)
	case in.Message < 1 || in.Message > 1<<40 || in.Link.Chunks(in.Message) > 1<<20:
		return fmt.Errorf("messages of %d bytes in chunks of %d: want from 1 byte to 1 TiB, in at most %d chunks", in.Message, l.Chunk, 1<<20)
	}
	if t := in.Link.Time(in.Message); t > maxTime/Time(n) {
		return fmt.Errorf("a message of %d bytes takes %g µs on a hop: want less than %g", in.Message, t.US(), (maxTime / Time(n)).US())
	}
	if in.Sizes == nil {
		return nil
	}
	return in.checkSizes()
}

// checkSizes returns an error if Sizes is invalid.
func (in *Instance) checkSizes() error {
	n := in.GPUs
	if len(in.Sizes) != n*n {
		return fmt.Errorf("sizes of %d messages between %d GPUs: want %d, a row a source", len(in.Sizes), n, n*n)
	}
	chunks := int64(0)
	for i, b := range in.Sizes {
		switch src, dst := i/n, i%n; {
		case b < 0 || b > 1<<40:
			return fmt.Errorf("the message from GPU %d to GPU %d has %d bytes: want from 0 to 1 TiB", src, dst, b)
		case src == dst && b != 0:
			return fmt.Errorf("GPU %d has a message of %d bytes for itself: want 0 on the diagonal", src, b)
		}
		if t := in.Link.Time(b); t > maxTime/Time(n) {
			return fmt.Errorf("the message of %d bytes from GPU %d to GPU %d takes %g µs on a hop: want less than %g", b, i/n, i%n, t.US(), (maxTime / Time(n)).US())
		}
		chunks += in.Link.Chunks(b)
	}
	if chunks > MaxChunks {
		return fmt.Errorf("%d chunks in all: want at most %d, by larger chunks", chunks, MaxChunks)
	}
	return nil
}

// empty reports whether all messages are empty.
func (in *Instance) empty() bool {
	return in.Sizes != nil && !slices.ContainsFunc(in.Sizes, func(b int64) bool { return b > 0 })
}

// T is the time of a message, or of one of mean size, over one hop.
func (in *Instance) T() Time { return in.Link.Time(in.Message) }

// size is the size of the message from a source to a destination, in bytes.
func (in *Instance) size(src, dst int) int64 {
	switch {
	case src == dst:
		return 0
	case in.Sizes == nil:
		return in.Message
	}
	return in.Sizes[src*in.GPUs+dst]
}

// flow is the size of a flow, source·n + destination, in bytes.
func (in *Instance) flow(flow int32) int64 {
	return in.size(int(flow)/in.GPUs, int(flow)%in.GPUs)
}

// chunkTime is the time of a chunk of a flow on a hop: all are full but the last.
func (in *Instance) chunkTime(flow, chunk int32) Time {
	size := in.flow(flow)
	if chunk == Whole {
		return in.Link.Time(size)
	}
	return in.Link.ChunkTime(min(size-int64(chunk)*in.Link.Chunk, in.Link.Chunk))
}
