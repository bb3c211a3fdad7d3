package server

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/published"
)

// fresh returns the plan in force of plans where the request wants it, with its
// ETag set.
// A client that has it already (If-None-Match) gets 304, after as long a wait
// for the next plan as it prefers (Prefer: wait); then fresh returns nil.
func fresh(w http.ResponseWriter, r *http.Request, plans *published.Plans) (*published.Plan, error) {
	known := parseETags(r.Header.Values("If-None-Match"))
	p, err := requestedPlan(r, plans)
	if err != nil {
		return nil, err
	}
	if wait, ok := preferredWait(r.Header.Values("Prefer")); ok && (p == nil || known.has(p.Epoch)) {
		w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait.Seconds())))
		ctx, cancel := unhurried(w, r, wait)
		defer cancel()
		p, err = plans.Wait(ctx, func(p *published.Plan) bool { return !known.has(p.Epoch) })
		switch {
		case errors.Is(err, published.ErrEnded):
			return nil, err
		case err != nil && r.Context().Err() != nil:
			return nil, api.Errorf(api.CodeStopping, "forsd is stopping: %v", context.Cause(r.Context()))
		}
	}
	switch {
	case p == nil && plans.Over():
		return nil, published.ErrEnded
	case p == nil:
		return nil, api.Errorf(api.CodeNoPlan, "no plan is in force yet")
	}
	w.Header().Set("ETag", api.ETag(p.Epoch))
	w.Header().Set("Cache-Control", "no-cache")
	if known.has(p.Epoch) {
		w.WriteHeader(http.StatusNotModified)
		return nil, nil
	}
	return p, nil
}

// requestedPlan returns the plan in force, or that of the epoch that the request names.
func requestedPlan(r *http.Request, plans *published.Plans) (*published.Plan, error) {
	text := r.URL.Query().Get("epoch")
	if text == "" {
		return plans.Current(), nil
	}
	return exactly(plans, "epoch", text)
}

// exactly returns the plan of the epoch that a parameter names.
func exactly(plans *published.Plans, parameter, text string) (*published.Plan, error) {
	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "%s=%.40s: want a number", parameter, text)
	}
	p := plans.Exactly(epoch)
	if p == nil && !plans.Over() {
		in := "no plan is in force"
		if now := plans.Current(); now != nil {
			in = fmt.Sprintf("epoch %d is in force", now.Epoch)
		}
		return nil, api.Errorf(api.CodeNoEpoch, "there is no table of epoch %d: %s, and only the last few before it are kept", epoch, in)
	}
	return p, nil
}

// etags is what a client has already.
type etags struct {
	any  bool
	tags []string
}

func parseETags(headers []string) etags {
	var e etags
	for _, h := range headers {
		for tag := range strings.SplitSeq(h, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			e.any = e.any || tag == "*"
			e.tags = append(e.tags, tag)
		}
	}
	return e
}

// has reports whether the client has the epoch.
func (e *etags) has(epoch uint64) bool {
	return e.any || slices.Contains(e.tags, api.ETag(epoch))
}

// preferredWait reads wait=SECONDS of Prefer (RFC 7240), and bounds it.
func preferredWait(headers []string) (time.Duration, bool) {
	for _, h := range headers {
		for preference := range strings.SplitSeq(h, ",") {
			token, _, _ := strings.Cut(preference, ";")
			name, value, _ := strings.Cut(token, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				continue // a preference that makes no sense is ignored
			}
			return min(time.Duration(seconds)*time.Second, api.MaxWait), true
		}
	}
	return 0, false
}

// form is one of the forms in which an answer can be had.
type form struct {
	name    string // for ?format=
	media   string // media type, for Accept
	content string // Content-Type
}

// chooseForm picks the form that the client asks for by ?format= or likes best
// by Accept; forms come in the server's order of preference.
func chooseForm(r *http.Request, forms []form) (form, error) {
	if q := r.URL.Query(); q.Has("format") {
		for _, f := range forms {
			if f.name == q.Get("format") {
				return f, nil
			}
		}
		return form{}, api.BadRequest("format %q does not exist: use csv or binary", q.Get("format"))
	}
	accept := r.Header.Values("Accept")
	if len(accept) == 0 {
		return forms[0], nil
	}
	best, quality := form{}, 0.0
	for _, f := range forms {
		if q := acceptance(accept, f.media); q > quality {
			best, quality = f, q
		}
	}
	if quality == 0 {
		var media []string
		for _, f := range forms {
			media = append(media, f.media)
		}
		return form{}, api.Errorf(api.CodeNotAcceptable, "none of the accepted media types can be had: use %s", strings.Join(media, ", "))
	}
	return best, nil
}

// acceptance returns the quality that Accept gives a media type: that of the most specific
// range that covers it, or 0 if no range does.
func acceptance(accept []string, media string) float64 {
	quality, precision := 0.0, 0
	for _, h := range accept {
		for item := range strings.SplitSeq(h, ",") {
			have, params, err := mime.ParseMediaType(item)
			if err != nil {
				continue
			}
			p := 0
			switch major, _, _ := strings.Cut(media, "/"); have {
			case media:
				p = 3
			case major + "/*":
				p = 2
			case "*/*":
				p = 1
			}
			if p <= precision {
				continue
			}
			quality, precision = 1, p
			if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q >= 0 && q <= 1 {
				quality = q
			}
		}
	}
	return quality
}
