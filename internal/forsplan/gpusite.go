package forsplan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/gpu"
	"github.com/forsd/forsd/internal/command"
)

// siteFlags are the flags for servers that are not all alike.
type siteFlags struct {
	file       string
	nics, gpus []string
	rails      bool
}

func (f *siteFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.file, "site", "", "what each server has, as JSON (docs/gpu.md), in place of --gpus-per-server")
	fs.BoolVar(&f.rails, "rails", false, "NICs reach only those of their own number in other servers")
	f.registerFailures(cmd)
}

func (f *siteFlags) registerFailures(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringSliceVar(&f.nics, "bad-nic", nil, "a NIC that is dead, SERVER:NIC, or slower, SERVER:NIC:PERCENT, counted from 0; may be repeated")
	fs.StringSliceVar(&f.gpus, "dead-gpu", nil, "a GPU that is dead, SERVER:GPU: it has no traffic, and its NIC cannot be used; may be repeated")
}

// read reads --site, and returns nil without it. With --site the size of the traffic matrix
// gives the number of GPUs.
func (f *siteFlags) read(t *trafficFlags) (*gpu.Site, error) {
	switch {
	case f.file == "":
		return nil, nil
	case f.rails || t.gpusPerServer != 0:
		return nil, errors.New("--site says what each server has: --gpus-per-server and --rails do not go with it")
	}
	data, err := command.ReadFlag("site", f.file, "a file that says what each server has")
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	site := &gpu.Site{}
	if err := d.Decode(site); err != nil {
		return nil, fmt.Errorf("--site %s: %w", f.file, err)
	}
	t.gpusPerServer = 1 // the matrix has a row for each GPU
	return site, nil
}

// printSite describes the site of a plan, and why the plan cannot be shorter.
func printSite(w io.Writer, r *gpu.Report) {
	gpus, channels := 0, 0
	for at, x := range r.Places {
		if x.GPU >= 0 && x.Home == at {
			gpus++
		}
		if x.NIC >= 0 {
			channels++
		}
	}
	fmt.Fprintf(w, "site\t%s, %s, %s of speed %d\n", command.Plural(r.Servers, "server", "servers"), command.Plural(gpus, "GPU", "GPUs"), command.Plural(channels, "channel", "channels"), r.Unit)
	c := r.Certificate
	switch {
	case len(c.Prices) > 0:
		fmt.Fprintf(w, "certificate\tno plan is shorter than %d bytes a channel, by %s on rails\n", r.Bound, command.Plural(len(c.Prices), "price", "prices"))
	case c.Receives:
		fmt.Fprintf(w, "certificate\tserver %d receives %d bytes over %s: no plan is shorter than %d\n", c.Server, c.Bytes, command.Plural(int(c.Channels), "channel", "channels"), r.Bound)
	default:
		fmt.Fprintf(w, "certificate\tserver %d sends %d bytes over %s: no plan is shorter than %d\n", c.Server, c.Bytes, command.Plural(int(c.Channels), "channel", "channels"), r.Bound)
	}
}

// printExchange prints a plan.
func printExchange(w io.Writer, r *gpu.Report, elapsed time.Duration) {
	if r.Certificate == nil {
		fmt.Fprintf(w, "cluster\t%s with %s each\n", command.Plural(r.Servers, "server", "servers"), command.Plural(r.GPUs, "GPU", "GPUs"))
	} else {
		printSite(w, r)
	}
	grain := ""
	if r.Grain > 1 {
		grain = fmt.Sprintf(", grain %d", r.Grain)
	}
	fmt.Fprintf(w, "mode\t%s%s\n", r.Mode, grain)
	fmt.Fprintf(w, "length\t%d bytes a NIC, %s\n", r.Length, overText(r.Length, r.Bound))
	if s := r.Sent; s != nil {
		fmt.Fprintf(w, "sent by NICs\t%d bytes, once to each server; once to each GPU %s, to each expert %s\n", s[gpu.ToServer], timesText(s[gpu.ToGPU], s[gpu.ToServer]), timesText(s[gpu.ToExpert], s[gpu.ToServer]))
	}
	fmt.Fprintf(w, "stages\t%d\n", len(r.Stages))
	fmt.Fprintf(w, "moved inside servers\t%d bytes before, %d after\n", r.MovesBefore, r.MovesAfter)
	p := &r.Predicted
	fmt.Fprintf(w, "buffers\t%d bytes at most to send from, or to receive into, over a NIC\n", r.NICBuffer)
	fmt.Fprintf(w, "predicted\t%s: %s before the stages, %s of stages, %s waiting for moves beside them, %s after\n",
		command.Seconds(p.Total), command.Seconds(p.Before), command.Seconds(p.Stages), command.Seconds(p.Beside), command.Seconds(p.After))
	if o := r.Outlook; o != nil && !o.Complete {
		fmt.Fprintf(w, "planning longer\tmay gain %s at most: no plan takes less than %s\n", command.Seconds(p.Total-o.Least), command.Seconds(o.Least))
	}
	carried := "byte by byte: every message arrives"
	if r.Returns {
		carried = "token by token: every sum is complete"
	} else if r.Sent != nil {
		carried = "token by token: every token arrives"
	}
	fmt.Fprintf(w, "planned in\t%s, and carried out %s\n", command.Took(elapsed), carried)
}

// timesText compares an amount with a smaller one.
func timesText(v, than int64) string {
	return fmt.Sprintf("%.2f times", float64(v)/float64(max(1, than)))
}

// overText compares a length with its bound.
func overText(length, bound int64) string {
	switch {
	case length <= bound:
		return "the least there can be"
	case bound == 0 || length-bound < bound/1000:
		return fmt.Sprintf("%d more than the bound of %d", length-bound, bound)
	}
	return fmt.Sprintf("%.1f %% over the bound of %d", 100*float64(length-bound)/float64(bound), bound)
}
