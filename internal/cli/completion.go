package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
)

// completionWithin is how long a shell waits for names.
const completionWithin = time.Second

// names completes words from the answers of a running forsd. Without an answer it completes
// nothing.
func names(ask func(context.Context, *api.Client) []cobra.Completion) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := dial(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completionWithin)
		defer cancel()
		return ask(ctx, c), cobra.ShellCompDirectiveNoFileComp
	}
}

// atMost completes no more than n arguments.
func atMost(n int, f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, word)
	}
}

// hostNames completes hosts that have a unique name.
var hostNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	t, err := c.Topology(ctx)
	if err != nil {
		return nil
	}
	count := map[string]int{}
	for i := range t.Hosts {
		count[ib.FirstWord(t.Hosts[i].Name)]++
	}
	for i := range t.Hosts {
		h := &t.Hosts[i]
		word := ib.FirstWord(h.Name)
		if word == "" || count[word] > 1 {
			word = h.GUID.String()
		}
		out = append(out, cobra.CompletionWithDesc(word, fmt.Sprintf("%s, LID %d", h.Name, h.LID)))
	}
	return out
})

// failureNames completes the arguments of --fail: switches and cables.
var failureNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	t, err := c.Topology(ctx)
	if err != nil {
		return nil
	}
	for i := range t.Spines {
		out = append(out, cobra.CompletionWithDesc(t.Spines[i].Name, "spine "+t.Spines[i].GUID.String()))
	}
	for i := range t.Leaves {
		out = append(out, cobra.CompletionWithDesc(t.Leaves[i].Name, "leaf "+t.Leaves[i].GUID.String()))
	}
	for i := range t.Mids {
		out = append(out, cobra.CompletionWithDesc(t.Mids[i].Name, "mid "+t.Mids[i].GUID.String()))
	}
	return append(out, cables(ctx, c)...)
})

// cableNames completes cables by the ports of their leaves.
var cableNames = names(cables)

func cables(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	all, err := c.Cables(ctx)
	if err != nil {
		return nil
	}
	for i := range all.Cables {
		x := &all.Cables[i]
		out = append(out, cobra.CompletionWithDesc(fmt.Sprintf("%s/%d", x.Leaf.Name, x.Leaf.Port), fmt.Sprintf("cable to %s port %d, %s", x.Spine.Name, x.Spine.Port, x.State)))
	}
	return out
}

// drainNames completes the names of drained parts.
var drainNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	all, _ := c.Drains(ctx)
	for i := range all {
		out = append(out, cobra.CompletionWithDesc(all[i].Name, all[i].State))
	}
	return out
})

// jobNames completes jobs.
var jobNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	jobs, _ := c.Jobs(ctx)
	for i := range jobs {
		word := jobs[i].Name
		if word == "" {
			word = fmt.Sprint(jobs[i].ID)
		}
		out = append(out, cobra.CompletionWithDesc(word, fmt.Sprintf("%d servers", jobs[i].Servers)))
	}
	return out
})

// epochNames completes epochs that are kept.
var epochNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	list, _ := c.Epochs(ctx)
	for i := range list {
		out = append(out, cobra.CompletionWithDesc(fmt.Sprint(list[i].Epoch), fmt.Sprintf("%d phases, published %s", list[i].Phases, command.Clock(list[i].PublishedAt))))
	}
	return out
})
