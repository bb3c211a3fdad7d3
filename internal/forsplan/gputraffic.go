package forsplan

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/internal/matrix"
)

// trafficFlags are the flags for traffic.
type trafficFlags struct {
	traffic       string
	routing       string
	topk          string
	experts       int
	placement     string
	once          string
	servers       int
	slice         int
	tokenBytes    int64
	back          bool
	gpusPerServer int
}

func (f *trafficFlags) register(cmd *cobra.Command) {
	f.registerInput(cmd)
	cmd.Flags().IntVar(&f.servers, "servers", 0, "servers, with --topk")
	cmd.Flags().IntVar(&f.gpusPerServer, "gpus-per-server", 0, "GPUs, and NICs, of a server")
}

// registerInput adds the flags for traffic without those for its cluster.
func (f *trafficFlags) registerInput(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.traffic, "traffic", "", "matrix of bytes, a row for each sending GPU: CSV, NPY or JSON; - is standard input")
	fs.StringVar(&f.routing, "routing", "", "instead: matrix of tokens, a row for each GPU and a column for each expert")
	fs.StringVar(&f.topk, "topk", "", "instead: experts chosen, a row for each token, those of GPU 0 first, -1 for none, or a column of 0 and 1 for each expert; with --servers and --experts")
	fs.IntVar(&f.experts, "experts", 0, "experts, with --topk, in blocks on the GPUs")
	fs.StringVar(&f.placement, "placement", "", "with --topk, in place of --experts: a row of GPUs for each expert, several for a redundant one, padded with -1")
	fs.StringVar(&f.once, "once", "", "with --topk: send a token once to each server, gpu or expert (default server, or gpu in sessions and with --mscclpp)")
	fs.IntVar(&f.slice, "slice", -1, "of an NPY array of three dimensions, with --routing and --topk: which layer or step, from 0 on (default, with --topk: the first dimension is the GPUs)")
	fs.Int64Var(&f.tokenBytes, "token-bytes", 0, "bytes of a token, with --routing and --topk")
	fs.BoolVar(&f.back, "return", false, "plan the way back, with --routing and --topk: from the experts to where the tokens came from")
}

// read reads the traffic. With --topk, unless --once says otherwise, it also returns the tokens,
// and the traffic is that of tokens sent once to each GPU.
func (f *trafficFlags) read(cmd *cobra.Command) (*gpu.Traffic, *gpu.Tokens, error) {
	file, what := f.traffic, "traffic"
	switch {
	case f.traffic != "" && f.routing != "":
		return nil, nil, errors.New("--traffic and --routing are both given: want one of them")
	case f.topk != "" && f.traffic+f.routing != "":
		return nil, nil, errors.New("--topk goes without --traffic and --routing: it is the traffic")
	case f.topk != "":
		return f.readTopK(cmd)
	case f.traffic == "" && f.routing == "":
		return nil, nil, errors.New("--traffic is missing: name a matrix of bytes (CSV, NPY or JSON), or - for standard input")
	case f.routing != "":
		file, what = f.routing, "routing"
	case f.tokenBytes != 0 || f.back || f.slice >= 0:
		return nil, nil, errors.New("--token-bytes, --return and --slice go with --routing and --topk, and --traffic is of bytes already")
	}
	if f.gpusPerServer < 1 {
		return nil, nil, fmt.Errorf("--gpus-per-server %d: say how many GPUs a server has", f.gpusPerServer)
	}
	o := matrix.Options{Square: f.traffic != "", Integer: true, Large: f.traffic != "", MaxSide: gpu.MaxRanks}
	if f.routing != "" {
		o.MaxSide, o.MaxRows, o.Slices = 0, maxTokens, true
	}
	m, err := matrix.ReadInput(cmd, file, o)
	if err == nil {
		err = f.cut(m, 0)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := gpu.Of(m.Rows, f.gpusPerServer)
	if err != nil {
		return nil, nil, fmt.Errorf("--%s %s with --gpus-per-server %d: %w", what, file, f.gpusPerServer, err)
	}
	var t *gpu.Traffic
	if f.traffic != "" {
		t, err = gpu.FromEntries(c, m.Data, m.Large)
	} else {
		t, err = gpu.FromRouting(c, m.Cols, m.Data, f.tokenBytes)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("--%s %s: %w", what, file, err)
	}
	if f.back {
		t = t.Transpose()
	}
	return t, nil, nil
}

// maxTokens is the maximum number of tokens of --topk.
const maxTokens = 1 << 22

// readTopK reads the experts of each token.
func (f *trafficFlags) readTopK(cmd *cobra.Command) (*gpu.Traffic, *gpu.Tokens, error) {
	once := gpu.Once(f.once)
	switch once {
	case "", gpu.ToServer:
		once = gpu.ToGPU
	case gpu.ToGPU, gpu.ToExpert:
	default:
		return nil, nil, fmt.Errorf("--once %s: want %s, %s or %s", f.once, gpu.ToServer, gpu.ToGPU, gpu.ToExpert)
	}
	if f.servers < 1 || f.gpusPerServer < 1 {
		return nil, nil, errors.New("--topk needs --servers and --gpus-per-server: say how many there are")
	}
	if (f.experts > 0) == (f.placement != "") {
		return nil, nil, errors.New("--topk needs either --experts, in blocks, or --placement, a file with the GPUs of each")
	}
	m, err := matrix.ReadInput(cmd, f.topk, matrix.Options{Integer: true, None: true, MaxRows: maxTokens, Slices: true, Column: true, Lines: "experts"})
	if err == nil {
		err = f.cut(m, f.servers*f.gpusPerServer)
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := gpu.Of(f.servers*f.gpusPerServer, f.gpusPerServer)
	if err != nil {
		return nil, nil, err
	}
	var placed gpu.Placement
	if f.experts > 0 {
		placed, err = c.Blocks(f.experts)
	} else {
		placed, err = readPlacement(cmd, f.placement)
	}
	if err != nil {
		return nil, nil, err
	}
	x, err := gpu.FromTopK(c, m.Data, m.Cols, placed, f.tokenBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("--topk %s: %w", f.topk, err)
	}
	t := x.Traffic(once)
	if f.back {
		t = t.Transpose()
	}
	if f.once == string(once) {
		return t, nil, nil
	}
	return t, x, nil
}

// cut extracts the requested slice from an array of three dimensions, or uses the whole array
// if it has a slice for each GPU.
func (f *trafficFlags) cut(m *matrix.Dense, gpus int) error {
	switch {
	case f.slice < 0 && (m.Slices == 0 || m.Slices == gpus):
		return nil
	case m.Slices == 0:
		return fmt.Errorf("--slice %d: the matrix has two dimensions, and a slice is of three", f.slice)
	case f.slice < 0:
		return fmt.Errorf("the array has %d × %d rows: say by --slice which layer or step is meant", m.Slices, m.Rows/m.Slices)
	case f.slice >= m.Slices:
		return fmt.Errorf("--slice %d: the array has %d", f.slice, m.Slices)
	}
	rows := m.Rows / m.Slices
	m.Data = m.Data[f.slice*rows*m.Cols : (f.slice+1)*rows*m.Cols]
	m.Rows, m.Slices = rows, 0
	return nil
}

// readPlacement reads the GPUs of each expert.
func readPlacement(cmd *cobra.Command, file string) (gpu.Placement, error) {
	m, err := matrix.ReadInput(cmd, file, matrix.Options{Integer: true, None: true})
	if err != nil {
		return nil, err
	}
	p := make(gpu.Placement, m.Rows)
	for at, v := range m.Data {
		if v >= gpu.MaxRanks {
			return nil, fmt.Errorf("--placement %s: expert %d is on GPU %v: want %d at most", file, at/m.Cols, v, gpu.MaxRanks-1)
		}
		if v >= 0 {
			p[at/m.Cols] = append(p[at/m.Cols], gpu.Rank(v))
		}
	}
	return p, nil
}
