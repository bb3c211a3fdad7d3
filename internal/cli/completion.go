package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// each completes a word for each element of a list.
func each[T any](list []T, word func(*T) (name, about string)) (out []cobra.Completion) {
	for i := range list {
		out = append(out, cobra.CompletionWithDesc(word(&list[i])))
	}
	return out
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
	return each(t.Hosts, func(h *api.Host) (string, string) {
		word := ib.FirstWord(h.Name)
		if word == "" || count[word] > 1 {
			word = h.GUID.String()
		}
		return word, fmt.Sprintf("%s, LID %d", h.Name, h.LID)
	})
})

// failureNames completes the arguments of --fail: switches and cables.
var failureNames = names(func(ctx context.Context, c *api.Client) []cobra.Completion {
	t, err := c.Topology(ctx)
	if err != nil {
		return nil
	}
	return slices.Concat(each(t.Spines, func(s *api.Spine) (string, string) { return s.Name, "spine " + s.GUID.String() }),
		each(t.Leaves, func(l *api.Leaf) (string, string) { return l.Name, "leaf " + l.GUID.String() }),
		each(t.Mids, func(m *api.Mid) (string, string) { return m.Name, "mid " + m.GUID.String() }), cables(ctx, c))
})

// cableNames completes cables by the ports of their leaves.
var cableNames = names(cables)

func cables(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	all, err := c.Cables(ctx)
	if err != nil {
		return nil
	}
	return each(all.Cables, func(x *api.Cable) (string, string) {
		return fmt.Sprintf("%s/%d", x.Leaf.Name, x.Leaf.Port), fmt.Sprintf("cable to %s port %d, %s", x.Spine.Name, x.Spine.Port, x.State)
	})
}

// drainNames completes the names of drained parts.
var drainNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	all, _ := c.Drains(ctx)
	return each(all, func(d *api.Drain) (string, string) { return d.Name, d.State })
})

// jobNames completes jobs.
var jobNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	jobs, _ := c.Jobs(ctx)
	return each(jobs, func(j *api.Job) (string, string) {
		return cmp.Or(j.Name, fmt.Sprint(j.ID)), fmt.Sprintf("%d servers", j.Servers)
	})
})

// epochNames completes epochs that are kept.
var epochNames = names(func(ctx context.Context, c *api.Client) (out []cobra.Completion) {
	list, _ := c.Epochs(ctx)
	return each(list, func(e *api.Epoch) (string, string) {
		return fmt.Sprint(e.Epoch), fmt.Sprintf("%d phases, published %s", e.Phases, command.Clock(e.PublishedAt))
	})
})
