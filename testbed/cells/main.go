// Command cells simulates the packets of exchanges as programs make them, each way in which
// libforsmpi can carry them out, and has the shim's own choice (mpi/libforsmpi/src/choose.c)
// choose by these times. It prints a line for each cell: a pattern, a part of the hosts, a block
// size, jitter, dead cables, and the queues of the switches. It fails where the choice is slower
// than 0.98 of the better of the plan, everything at once, and MPI's own algorithm. It is make
// cells.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/parallel"
	"github.com/forsd/forsd/testbed/fabgen"
)

// leastChosen is the least throughput as the shim chooses, as a share of the better of the
// others.
const leastChosen = 0.98

// options are the cells to simulate.
type options struct {
	spec     fabgen.Spec
	pods     int // k of a k-ary tree of three levels instead; 0: two levels
	dead     []int
	bytes    []int
	jitters  []float64
	every    int    // of all cells, one in every is simulated
	speedup  int    // of inputs with one queue
	out      string // CSV
	routines int
	compared bool // with min-hop and adaptive switches, in place of the cells
}

func main() {
	o := options{spec: fabgen.Spec{LMC: 5}}
	flag.IntVar(&o.spec.Spines, "spines", 6, "spines, and hosts of a leaf")
	flag.IntVar(&o.spec.Leaves, "leaves", 6, "leaves")
	flag.IntVar(&o.pods, "pods", 0, "a tree of three levels instead, of switches with so many ports")
	flag.IntVar(&o.every, "every", 1, "simulate one cell of so many")
	flag.IntVar(&o.speedup, "speedup", 1, "packets that an input with one queue passes on at once")
	flag.IntVar(&o.routines, "j", 2, "cells that are simulated at once")
	flag.StringVar(&o.out, "csv", "", "a file for the cells")
	flag.BoolVar(&o.compared, "compare", false, "compare equal blocks among all hosts of two levels with OpenSM's min-hop and adaptive switches instead")
	dead := flag.String("dead", "0,1,3,9", "numbers of dead cables at random places, with commas between them")
	bytes := flag.String("bytes", "16384,262144,4194304", "bytes of a block on average")
	jitters := flag.String("jitter", "0,0.1,1", "mean delays before a send, as shares of the time of a block")
	flag.Parse()
	err := errors.Join(list(*dead, "dead", strconv.Atoi, &o.dead), list(*bytes, "bytes", strconv.Atoi, &o.bytes),
		list(*jitters, "jitter", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, &o.jitters))
	if err == nil && o.compared && o.pods > 0 {
		err = errors.New("-compare: not with -pods")
	}
	if err == nil && (o.every < 1 || o.routines < 1 || o.speedup < 1) {
		err = errors.New("-every, -j and -speedup: want 1 or more")
	}
	command.Main("cells", func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return o.show(ctx)
	})
}

// list parses numbers with commas between them, none of which may be negative.
func list[T int | float64](text, flag string, parse func(string) (T, error), to *[]T) error {
	for _, word := range strings.Split(text, ",") {
		x, err := parse(word)
		if err != nil || x < 0 {
			return fmt.Errorf("-%s %s: want numbers with commas between them", flag, text)
		}
		*to = append(*to, x)
	}
	return nil
}

// show simulates all cells, prints them, and judges them.
func (o *options) show(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "cells")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := compile(ctx, ".", dir)
	if err != nil {
		return err
	}
	if o.compared {
		return o.compare(ctx, p.choice)
	}
	all, err := o.cells(ctx, p)
	if err != nil {
		return err
	}
	_, err = parallel.Each(ctx, len(all), o.routines, func(int) func(int) error {
		return func(i int) error { return all[i].simulate(ctx, o.speedup) }
	})
	if err == nil {
		err = choose(ctx, p.choice, all)
	}
	if err != nil {
		return err
	}
	if err := o.write(all); err != nil {
		return err
	}
	return judge(all)
}

// write prints the cells as CSV, into the file or to standard output.
func (o *options) write(all []*cell) (err error) {
	to := os.Stdout
	if o.out != "" {
		if to, err = os.Create(o.out); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, to.Close()) }()
	}
	w := csv.NewWriter(to)
	_ = w.Write([]string{"dead", "queues", "pattern", "hosts", "bytes", "jitter", "plan", "once", "mpi", "clock", "chosen", "share"})
	for _, c := range all {
		_ = w.Write(c.record())
	}
	w.Flush()
	return w.Error()
}

// judge reports the cells in which the choice loses, and says how many do not.
func judge(all []*cell) error {
	var errs []error
	least := 1.0
	for _, c := range all {
		least = min(least, c.share())
		if c.share() < leastChosen {
			errs = append(errs, fmt.Errorf("%s: %.3f of the better of the others", strings.Join(c.record()[:6], ", "), c.share()))
		}
	}
	fmt.Fprintf(os.Stderr, "%d cells, %d below %g, the least %.3f\n", len(all), len(errs), leastChosen, least)
	return errors.Join(errs...)
}
