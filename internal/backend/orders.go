package backend

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/internal/store"
	"github.com/forsd/forsd/topology"
)

// Ordered logs and publishes an operator's order and its outcome.
func (b *Parts) Ordered(ctx context.Context, what, result string, err error) {
	if err != nil {
		result = "refused: " + err.Error()
	}
	request := access.RequestOf(ctx)
	request.Told = true
	by := request.Caller
	fields := []zap.Field{zap.String("order", what), zap.String("text", result)}
	if by != nil {
		fields = append(fields, zap.String("way", by.Way), zap.Stringer("role", by.Role), zap.String("user", by.User), zap.Uint32p("uid", by.UID), zap.String("from", by.From), zap.String("process", by.Process), zap.Int32("pid", by.PID))
	}
	b.Log.Info("ordered", fields...)
	b.State.Emit(api.KindOrder, api.Order{What: what, By: by, Result: result, Before: request.Epoch, After: b.State.Now().EpochNumber()})
}

// Accept makes the current fabric the baseline, with new numbers for lanes and indices. It
// keeps a copy of the old baseline if the disk allows.
func (b *Backend) Accept(ctx context.Context) (out api.Change, err error) {
	defer func() { b.Ordered(ctx, "baseline accept", out.Text, err) }()
	old, path, kept := b.State.Now().Baseline, "", ""
	if old != nil {
		var cerr error
		path, cerr = store.KeepCopy(b.Store.Disk, old, time.Now())
		if kept = "; the old one is " + path; cerr != nil {
			kept = "; there is no copy of the old one: " + cerr.Error()
		}
	}
	if err := b.Loop.Accept(ctx); err != nil {
		if path != "" {
			_ = os.Remove(path) // the old baseline stays
		}
		return api.Change{}, err
	}
	return api.Change{Epoch: b.State.Now().EpochNumber(), Text: "the fabric as it is now is the baseline; plan and tables follow" + kept}, nil
}

// Reload reads the configuration again, and applies the settings that can change while forsd
// runs. With dry it only reports the changes.
func (b *Backend) Reload(ctx context.Context, dry bool) (out *api.Reload, err error) {
	if !dry {
		defer func() {
			result := ""
			if out != nil {
				result = fmt.Sprintf("changed %v, restart needed for %v", out.Changed, out.Restart)
			}
			b.Ordered(ctx, "reload", result, err)
		}()
	}
	return b.Settings.Reload(ctx, dry, b.Log, b.State.Health)
}

// reload answers POST /v1/reload. The body is optional.
func (b *Backend) reload(r *http.Request) (any, error) {
	var q api.ReloadRequest
	body, err := server.ReadBody(r, maxReload)
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		if err := api.Decode(body, &q); err != nil {
			return nil, err
		}
	}
	return b.Reload(r.Context(), q.DryRun)
}

// maxReload is the maximum size of a reload request in bytes.
const maxReload = 1 << 10

// previewAccept answers with the changes that accepting the baseline would make.
func (b *Backend) previewAccept(*http.Request) (any, error) {
	now := b.State.Now()
	v, old := now.Latest, now.Baseline
	if v == nil || old == nil {
		return nil, errNoDump
	}
	fresh, err := topology.Recognise(v.Fabric)
	if err != nil {
		return nil, api.Refused("the fabric cannot be the baseline: %v", err)
	}
	out := api.Preview{Changes: append([]string{}, topology.BaselineChanges(old, fresh)...), Deviations: []string{}}
	for _, f := range v.Findings() {
		out.Deviations = append(out.Deviations, f.Text)
	}
	return out, nil
}
