package api

import (
	"context"
	"net/http"
)

// Reload is the answer to POST /v1/reload: the keys of forsd.yaml whose changed values are
// or would be in force now, and those that need a restart of forsd.
type Reload struct {
	File    string   `json:"file"`
	Changed []string `json:"changed"`
	Restart []string `json:"restart"`
}

// ReloadRequest is the body of POST /v1/reload.
type ReloadRequest struct {
	DryRun bool `json:"dry_run,omitempty"` // check the file, and change nothing
}

// Reload makes the daemon read its configuration again.
func (c *Client) Reload(ctx context.Context, q ReloadRequest) (*Reload, error) {
	return ask[Reload](ctx, c, http.MethodPost, "/v1/reload", q)
}
