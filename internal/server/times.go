package server

import (
	"net/http"

	"github.com/forsd/forsd/internal/published"
)

// maxTimes is how many bytes the times of an exchange may have.
const maxTimes = 8 << 20

// ofTimes returns what answers POST …/times?epoch=N: the backend measures the fabric by an exchange
// that ranks have timed.
func ofTimes(b Backend) func(http.ResponseWriter, *http.Request, *published.Plans) error {
	return func(w http.ResponseWriter, r *http.Request, plans *published.Plans) error {
		p, err := exactly(plans, "epoch", r.URL.Query().Get("epoch"))
		if err == nil && p == nil {
			err = published.ErrEnded
		}
		if err != nil {
			return err
		}
		body, err := ReadBody(r, maxTimes)
		if err != nil {
			return err
		}
		ctx, cancel := unhurried(w, r, maxChange)
		defer cancel()
		measured, err := b.Measure(ctx, p.Table, body)
		if err != nil {
			return err
		}
		return WriteJSON(w, r, measured)
	}
}
