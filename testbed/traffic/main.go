// Command traffic has unmodified Open MPI exchange data over a simulated fabric, through
// the tables that a real OpenSM programmed: on min-hop, and by forsd with its shim for
// MPI, to base LIDs and on lanes. A cable is pulled while an exchange runs, then others
// die, and a spine. It prints the throughputs and those that sim predicts from the tables,
// and fails if they differ by more than 5 % or the simulation could not keep up. It is
// make testbed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// limit bounds the whole.
const limit = 40 * time.Minute

// together is how many bytes a second all hosts send. Two processors keep up with that for
// 36 hosts; with 64 hosts one transfer in a hundred is late, and a fifth less is carried in time.
const together = 72_000_000

func main() {
	if err := urgent(); err != nil {
		fmt.Fprintf(os.Stderr, "traffic: %v\n", err)
		os.Exit(1)
	}
	o := options{tell: printRow}
	flag.IntVar(&o.n, "n", 6, "leaves, spines and hosts of a leaf: FT(2;n,n)")
	flag.Int64Var(&o.rate, "rate", 0, "bytes a second that stand for a link's 200 Gb/s; 0 has all hosts together send 72 MB/s")
	flag.IntVar(&o.bytes, "bytes", 1<<20, "bytes from each host to each other")
	flag.IntVar(&o.rounds, "rounds", 1, "exchanges of which the median counts")
	flag.IntVar(&o.upTo, "states", 4, "so many of: healthy, a dead cable, three dead cables, a dead spine")
	numbers := flag.String("csv", "", "a file for the numbers, from which forslab draws them")
	flag.Func("programs", "exchanges without the shim, by the plan, and as the shim chooses: all, or some of "+strings.Join(shapes, ", "), o.take)
	flag.StringVar(&o.only, "only", "", "one kind of tables: min-hop or forsd; none means both")
	flag.StringVar(&o.forsd, "forsd", "bin/forsd", "the forsd to show")
	flag.StringVar(&o.shim, "shim", "bin/libforsmpi.so", "its shim for Open MPI")
	flag.StringVar(&o.lanes, "lanes", "bin/libforslanes.so", "its library for lanes")
	flag.Parse()
	if o.rate == 0 {
		o.rate = together / int64(o.n*o.n)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	all, err := show(ctx, o)
	stop()
	if *numbers != "" {
		err = errors.Join(err, os.WriteFile(*numbers, encode(all), 0o644))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "traffic: %v\n", err)
		os.Exit(1)
	}
}

// urgent starts the program again with real-time priority, as root, so that other work on
// the machine slows down neither ranks nor the routing of their packets. Its child processes
// inherit the priority.
func urgent() error {
	const begun = "TRAFFIC_URGENT"
	if os.Getuid() != 0 || os.Getenv(begun) != "" {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	chrt, err := exec.LookPath("chrt")
	if err != nil {
		return err
	}
	return syscall.Exec(chrt, append([]string{"chrt", "--rr", "1", program}, os.Args[1:]...), append(os.Environ(), begun+"=1"))
}

// show measures and prints. On an error it returns the measurements until then, too.
func show(ctx context.Context, o options) (all []measurement, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
	defer cancel()
	if o.dir, err = os.MkdirTemp("", "traffic"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.dir)) }()
	for _, path := range []*string{&o.shim, &o.lanes} { // ranks load them
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	if err := o.build(ctx); err != nil {
		return nil, err
	}
	fmt.Printf("FT(2;%d,%d), %d hosts, under a real OpenSM; a link carries %.1f MB/s, which stand for 200 Gb/s: 1 to %.0f.\n",
		o.n, o.n, o.n*o.n, float64(o.rate)/1e6, 25e9/float64(o.rate))
	if o.programs != nil {
		fmt.Printf("Blocks of %d bytes on average.\n\n", o.bytes)
		seen, err := measurePrograms(ctx, o)
		return nil, errors.Join(err, judgePrograms(seen))
	}
	fmt.Printf("Each host sends %d bytes to each other; median of %d.\n\n", o.bytes, o.rounds)
	printHead()
	for _, way := range []struct {
		name string
		run  func(context.Context, options) ([]measurement, error)
	}{{"min-hop", measureMinHop}, {"forsd", measureForsd}} {
		if o.only != "" && o.only != way.name {
			continue
		}
		seen, err := way.run(ctx, o)
		all = append(all, seen...)
		if err != nil {
			return all, fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return all, judgeAll(all)
}

// tolerance is the largest relative difference of a throughput from the prediction.
const tolerance = 0.05

const (
	head = "%-9s %-18s %-14s %9s %9s %8s %8s %9s %8s %5s\n"
	row  = "%-9s %-18s %-14s %9.3f %9.3f %8s %8.3f %9v %7.1f%% %5d\n"
)

func printHead() {
	fmt.Printf(head, "tables", "state", "exchange", "predicted", "measured", "off by", "waited", "late", "behind", "lost")
}

// off is the relative difference of the throughput from the prediction.
func (m *measurement) off() float64 { return m.measured/m.predicted - 1 }

func printRow(m measurement) {
	off := fmt.Sprintf("%.1f%%", 100*m.off())
	if m.exchange.loose {
		off = "-"
	}
	fmt.Printf(row, m.tables, m.state, m.exchange.name, m.predicted, m.measured, off, m.waited, m.count.Late.Round(time.Microsecond), 100*m.behind(), m.lost())
}

// encode returns the measurements as CSV. The bound is 0 if it is not known.
func encode(all []measurement) []byte {
	var out bytes.Buffer
	fmt.Fprintln(&out, "tables,state,exchange,bound,predicted,measured,waited,behind,lost")
	for _, m := range all {
		fmt.Fprintf(&out, "%s,%s,%s,%.4f,%.4f,%.4f,%.4f,%.4f,%d\n", m.tables, m.state, m.exchange.name, m.exchange.bound, m.predicted, m.measured, m.waited, m.behind(), m.lost())
	}
	return out.Bytes()
}

// judgeAll reports the differences from the predictions.
func judgeAll(all []measurement) error {
	var errs []error
	for _, m := range all {
		if off := m.off(); !m.exchange.loose && (off > tolerance || off < -tolerance) {
			errs = append(errs, fmt.Errorf("%s, %s, %s: %.3f, and %.3f is predicted", m.tables, m.state, m.exchange.name, m.measured, m.predicted))
		}
		if m.behind() > 0.01 {
			errs = append(errs, fmt.Errorf("%s, %s, %s: the simulation was behind for %v of %v: lower the rate", m.tables, m.state, m.exchange.name, m.count.Behind, m.count.Elapsed))
		}
	}
	return errors.Join(errs...)
}
