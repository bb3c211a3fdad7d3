package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/phasetable"
)

// MaxWait is the longest long poll.
const MaxWait = 5 * time.Minute

// MediaJSON is the media type of requests and answers.
const MediaJSON = "application/json"

// Client asks a forsd. It is safe for concurrent use.
type Client struct {
	base  string // without a slash at the end
	http  *http.Client
	addr  string
	token string // "" if none
}

// Credentials authenticate a client to forsd, and forsd to the client.
type Credentials struct {
	TLS   *tls.Config // for https; if nil, the system's authorities are used
	Token string      // sent over TLS and on the socket; "" if none

	// Connect makes connections, through a tunnel for instance; if nil, the address is dialled.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial returns a client for addr: the path of a Unix socket (with or without
// unix: in front), http://host:port or https://host:port. It connects when it is first
// used.
func Dial(addr string) (*Client, error) { return DialAs(addr, Credentials{}) }

// DialAs is Dial with credentials.
func DialAs(addr string, as Credentials) (*Client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: MaxWait + 30*time.Second, TLSClientConfig: as.TLS, DialContext: as.Connect}
	c := &Client{http: &http.Client{Transport: transport}, addr: addr, token: as.Token}
	if as.Token != "" && strings.HasPrefix(addr, "http:") {
		return nil, fmt.Errorf("%s is not https: a token would cross the network in the clear", addr)
	}
	if u, err := url.Parse(addr); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		c.base = strings.TrimSuffix(addr, "/")
		return c, nil
	}
	path, named := strings.CutPrefix(addr, "unix:")
	if path == "" || !named && !strings.Contains(path, "/") {
		return nil, fmt.Errorf("%q is not an address of a forsd: want the path of its socket, http://host:port or https://host:port", addr)
	}
	c.base = "http://forsd"
	if as.Connect == nil {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return c, nil
}

// Close gives idle connections up.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// do sends a request and returns an answer with status 200 or 304; any other
// status becomes an *Error. The caller closes the body.
func (c *Client) do(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", MediaJSON)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the URL of a socket says nothing
		}
		return nil, fmt.Errorf("ask forsd at %s: %w", c.addr, err)
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNotModified {
		return resp, nil
	}
	defer resp.Body.Close()
	e := &Error{}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(text, e) != nil || e.Text == "" {
		e = Errorf(CodeInternal, "%s %s at %s: %s", method, path, c.addr, resp.Status)
	}
	return nil, e
}

// The most bytes that a client reads of an answer.
const (
	maxDocument = 64 << 20 // one of JSON
	maxPhases   = 1 << 30  // limit of the phases of a plan, and of their encoding
)

// read reads an answer of at most so many bytes whole.
func (c *Client) read(resp *http.Response, most int64) ([]byte, error) {
	data, err := []byte(nil), error(nil)
	tooLong := resp.ContentLength > most
	if !tooLong {
		data, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
		tooLong = int64(len(data)) > most
	}
	if tooLong {
		err = fmt.Errorf("it has more than %d bytes: is there a forsd at that address?", most)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer of forsd at %s to %s: %w", c.addr, resp.Request.URL.Path, err)
	}
	return data, nil
}

// Call sends a request to an endpoint, such as one of Config.Mount, with in
// as its JSON body unless it is nil, and decodes the JSON answer, of at most 1 GiB, into
// out.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	return c.call(ctx, method, path, in, out, maxPhases)
}

// Get asks for an answer as it is, of at most 1 GiB.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	return c.fetch(ctx, http.MethodGet, path, nil, nil, maxPhases)
}

// fetch sends a request and reads the answer, of at most so many bytes.
func (c *Client) fetch(ctx context.Context, method, path string, body []byte, header http.Header, most int64) ([]byte, error) {
	resp, err := c.do(ctx, method, path, body, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return c.read(resp, most)
}

// call is Call for an answer of at most so many bytes.
func (c *Client) call(ctx context.Context, method, path string, in, out any, most int64) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	data, err := c.fetch(ctx, method, path, body, nil, most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("read the answer of forsd at %s to %s: %w", c.addr, path, err)
	}
	return nil
}

// ask sends a request and returns the JSON answer.
func ask[T any](ctx context.Context, c *Client, method, path string, in any) (*T, error) {
	out := new(T)
	if err := c.call(ctx, method, path, in, out, maxDocument); err != nil {
		return nil, err
	}
	return out, nil
}

// Status asks for the daemon's state.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return ask[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Topology asks for the fabric as last seen.
func (c *Client) Topology(ctx context.Context) (*Topology, error) {
	return ask[Topology](ctx, c, http.MethodGet, "/v1/topology", nil)
}

// Epochs asks for the epochs that are kept, ascending.
func (c *Client) Epochs(ctx context.Context) ([]Epoch, error) {
	var out EpochList
	err := c.call(ctx, http.MethodGet, "/v1/epochs", nil, &out, maxDocument)
	return out.Epochs, err
}

// Server asks what one server does: by description, port GUID or LID.
func (c *Client) Server(ctx context.Context, server string) (*ServerPlan, error) {
	return ask[ServerPlan](ctx, c, http.MethodGet, "/v1/plan/servers/"+url.PathEscape(server), nil)
}

// Reroute has the daemon plan afresh.
func (c *Client) Reroute(ctx context.Context) (*Change, error) {
	return ask[Change](ctx, c, http.MethodPost, "/v1/reroute", nil)
}

// WhatIf asks for a plan of the fabric as it would be.
func (c *Client) WhatIf(ctx context.Context, q WhatIf) (*Forecast, error) {
	return ask[Forecast](ctx, c, http.MethodPost, "/v1/whatif", q)
}

// WhatIfTable asks for the phases of the plan that WhatIf describes, as the binary
// table or as phases.csv.
func (c *Client) WhatIfTable(ctx context.Context, q WhatIf, csv bool) ([]byte, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	media := phasetable.MediaType
	if csv {
		media = "text/csv"
	}
	return c.fetch(ctx, http.MethodPost, "/v1/whatif", body, http.Header{"Accept": {media}}, maxPhases)
}

// Rollback publishes the plan of an older epoch again.
func (c *Client) Rollback(ctx context.Context, epoch uint64) (*Change, error) {
	return ask[Change](ctx, c, http.MethodPost, "/v1/rollback", RollbackRequest{epoch})
}

// Ready is nil when a verified epoch is in force.
func (c *Client) Ready(ctx context.Context) error {
	return c.Call(ctx, http.MethodGet, "/readyz", nil, &struct{}{})
}

// Plan is a plan in force: the answer of /v1/plan.
type Plan struct {
	Epoch       uint64          `json:"epoch"`
	PublishedAt time.Time       `json:"published_at"`
	Document    json.RawMessage `json:"-"` // the whole answer, with the fields of plan.json
}

// Plan asks for the plan in force.
func (c *Client) Plan(ctx context.Context) (*Plan, error) { return c.plan(ctx, http.Header{}) }

// plan asks for the plan in force; it is nil when the header holds conditions
// that fail.
func (c *Client) plan(ctx context.Context, header http.Header) (*Plan, error) {
	resp, err := c.do(ctx, http.MethodGet, "/v1/plan", nil, header)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil, nil
	}
	p := &Plan{}
	if p.Document, err = c.read(resp, maxDocument); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(p.Document, p); err != nil {
		return nil, fmt.Errorf("read the plan of forsd at %s: %w", c.addr, err)
	}
	return p, nil
}

// WaitEpoch waits for a plan of an epoch other than seen, by long polls, and
// returns it; 0 waits for the first. It ends with ctx's error, or with that of a
// request that fails.
func (c *Client) WaitEpoch(ctx context.Context, seen uint64) (*Plan, error) {
	header := http.Header{"Prefer": {"wait=60"}, "If-None-Match": {ETag(seen)}}
	for {
		p, err := c.plan(ctx, header)
		if refused, ok := errors.AsType[*Error](err); ok && refused.Code == CodeNoPlan {
			err = nil // the wait ended before the first plan
		}
		if p != nil || err != nil {
			return p, err
		}
	}
}

// Table asks for the binary table of the plan in force and checks it whole.
func (c *Client) Table(ctx context.Context) (*phasetable.View, error) {
	return c.table(ctx, "/v1/plan/phases")
}

// BaseTable does the same for the plan for base LIDs.
func (c *Client) BaseTable(ctx context.Context) (*phasetable.View, error) {
	return c.table(ctx, "/v1/plan/phases?lids=base")
}

// Changes asks which pairs of servers a plan sends to by other LIDs than that of an
// epoch before it. Epoch 0 is the plan in force.
func (c *Client) Changes(ctx context.Context, since, epoch uint64) (*PlanChanges, error) {
	path := fmt.Sprintf("/v1/plan/changes?since=%d", since)
	if epoch != 0 {
		path += fmt.Sprintf("&epoch=%d", epoch)
	}
	var out PlanChanges
	return &out, c.call(ctx, http.MethodGet, path, nil, &out, maxPhases)
}

func (c *Client) table(ctx context.Context, path string) (*phasetable.View, error) {
	data, err := c.fetch(ctx, http.MethodGet, path, nil, http.Header{"Accept": {phasetable.MediaType}}, maxPhases)
	if err != nil {
		return nil, err
	}
	return phasetable.Decode(data)
}

// PhasesCSV asks for the phases of the plan in force as phases.csv, and their
// epoch.
func (c *Client) PhasesCSV(ctx context.Context) (csv []byte, epoch uint64, err error) {
	return c.phases(ctx, "/v1/plan/phases", http.Header{"Accept": {"text/csv"}})
}

// phases asks for the phases of a plan and their epoch; there are none when the
// header holds conditions that fail.
func (c *Client) phases(ctx context.Context, path string, header http.Header) (data []byte, epoch uint64, err error) {
	resp, err := c.do(ctx, http.MethodGet, path, nil, header)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil, 0, nil
	}
	epoch, err = strconv.ParseUint(strings.Trim(resp.Header.Get("ETag"), `"`), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("the answer of forsd at %s to %s bears no epoch: %w", c.addr, path, err)
	}
	data, err = c.read(resp, maxPhases)
	return data, epoch, err
}
