// Package webhook sends warnings to a web service, for sites without other alarms: when
// each is raised, has a new text, and is cleared. Messages are queued and sent one after
// the other by a separate goroutine, so that no caller waits.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/forsd/forsd/internal/health"
)

// Failing is the code of the warning that messages are not accepted. It is not sent.
const Failing = "webhook-failing"

// Kinds returns this warning.
func Kinds() []health.Warnable {
	return []health.Warnable{{Code: Failing, Severity: health.Degraded, Title: "The webhook does not accept warnings"}}
}

// Settings are the destination and the selection of messages.
type Settings struct {
	URL      string          // or the path of a file that contains it; may be empty
	Secret   string          // path of a file with the key for signatures; may be empty
	Template string          // a name in Templates, or the path of a file
	Severity health.Severity // the lowest severity to send
	Version  string          // of forsd
	Fabric   string          // its name, may be empty
}

// limits are the limits of delivery.
type limits struct {
	attempt    time.Duration // time limit of one attempt
	first, max time.Duration // delays between attempts; the delay doubles
	age        time.Duration // maximum age of a message that is still tried
}

// queueLength limits the queue. If it is full, the oldest message is dropped.
const queueLength = 256

// Hook sends messages.
type Hook struct {
	Settings
	limits
	log    *zap.Logger
	health *health.Tracker
	host   string

	client     *http.Client
	queue      chan Message
	sent, lost atomic.Uint64
}

// New returns a webhook. Call Run to send its messages.
func New(s Settings, log *zap.Logger, h *health.Tracker) *Hook {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 1
	return &Hook{Settings: s, limits: limits{10 * time.Second, time.Second, time.Minute, time.Hour}, log: log, health: h, host: host, queue: make(chan Message, queueLength),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Note queues a message that a warning begins or ends, without waiting.
func (h *Hook) Note(w health.Warning, on bool) {
	if h.URL == "" || w.Code == Failing || !w.Severity.AtLeast(h.Severity) {
		return
	}
	m := Message{State: Raised, Code: w.Code, Severity: w.Severity, Title: w.Title, Text: w.Text, Since: w.Since, Advice: health.Advice(w.Code), Runbook: health.Runbook(w.Code)}
	if !on {
		m.State, m.Advice = Over, ""
	}
	h.put(m)
}

// put queues a message, dropping the oldest one if the queue is full.
func (h *Hook) put(m Message) {
	m.ID, m.Host, m.Fabric, m.At = "msg_"+rand.Text(), h.host, h.Fabric, time.Now()
	for {
		select {
		case h.queue <- m:
			return
		default:
		}
		select {
		case <-h.queue:
			h.lost.Add(1)
		default:
		}
	}
}

// Sent counts the accepted messages.
func (h *Hook) Sent() uint64 { return h.sent.Load() }

// Lost counts the messages that will not be delivered.
func (h *Hook) Lost() uint64 { return h.lost.Load() }

// Run sends messages until ctx ends. The first message is that forsd was started.
func (h *Hook) Run(ctx context.Context) error {
	if h.URL == "" {
		return nil
	}
	h.put(Message{State: Started, Severity: health.Info, Title: "forsd " + h.Version + " was started", Text: "warnings will be sent here"})
	for {
		select {
		case m := <-h.queue:
			h.deliver(ctx, m)
		case <-ctx.Done():
			return nil
		}
	}
}

// deliver sends a message until it is accepted, refused or too old.
func (h *Hook) deliver(ctx context.Context, m Message) {
	for wait := h.first; ; wait = min(2*wait, h.max) {
		err := h.send(ctx, m)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			h.sent.Add(1)
			h.health.Clear(Failing)
			return
		}
		no, given := errors.AsType[*refusal](err)
		if given && no.final || time.Since(m.At) > h.age {
			h.lost.Add(1)
			h.log.Error("a message for the webhook was given up", zap.String("code", m.Code), zap.Error(err))
			h.warn(err)
			return
		}
		h.warn(err)
		if given {
			wait = max(wait, min(no.after, h.max))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// warn raises the warning that messages are not accepted.
func (h *Hook) warn(err error) {
	text := err.Error()
	if n := h.Lost(); n > 0 {
		text += fmt.Sprintf("; %d messages were lost", n)
	}
	h.health.Raise(Failing, text, time.Now())
}

// refusal is a response other than success.
type refusal struct {
	text  string
	final bool          // a repeated attempt would get the same response
	after time.Duration // the delay that the service requests
}

// Error describes the response.
func (r *refusal) Error() string { return r.text }

// send makes one attempt. Its errors contain only the host of the address, because the rest may
// be a secret.
func (h *Hook) send(ctx context.Context, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, h.attempt)
	defer cancel()
	address, err := h.address()
	if err != nil {
		return err
	}
	body, err := m.render(h.Template)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("webhook.url cannot be asked: want https://host/path")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "forsd/"+h.Version)
	if err := h.sign(r.Header, m.ID, time.Now(), body); err != nil {
		return err
	}
	answer, err := h.client.Do(r)
	if err != nil {
		if in, ok := errors.AsType[*url.Error](err); ok {
			err = in.Err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s did not answer within %s", address.Host, h.attempt)
		}
		return fmt.Errorf("%s cannot be asked: %w", address.Host, err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<16) // allow reuse of the connection
	return judge(address.Host, answer)
}

// judge returns nil if a response is a success.
func judge(host string, answer *http.Response) error {
	code := answer.StatusCode
	switch {
	case code/100 == 2:
		return nil
	case code/100 == 3:
		elsewhere := "elsewhere"
		if to, err := answer.Location(); err == nil {
			elsewhere = "to " + to.Scheme + "://" + to.Host
		}
		return &refusal{text: fmt.Sprintf("%s answers %s, and redirects %s: redirects are not followed, set webhook.url to where the service is", host, answer.Status, elsewhere), final: true}
	case code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests || code/100 == 5:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // 0 if missing or a date
		return &refusal{text: fmt.Sprintf("%s answers %s", host, answer.Status), after: time.Duration(max(0, min(seconds, 3600))) * time.Second}
	}
	return &refusal{text: fmt.Sprintf("%s answers %s: check webhook.url, webhook.secret_file and webhook.template", host, answer.Status), final: true}
}

// address returns the current destination.
func (h *Hook) address() (*url.URL, error) {
	text := h.URL
	if filepath.IsAbs(text) {
		raw, err := os.ReadFile(text)
		if err != nil {
			return nil, fmt.Errorf("read webhook.url: %w", err)
		}
		text = strings.TrimSpace(string(raw))
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("webhook.url is not an address: want https://host/path, or the path of a file with that alone in it")
	}
	return u, nil
}

// sign signs a message according to the specification Standard Webhooks (version 1.0.0):
// HMAC-SHA256 over its ID, the time and the body.
func (h *Hook) sign(header http.Header, id string, at time.Time, body []byte) error {
	stamp := strconv.FormatInt(at.Unix(), 10)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", stamp)
	if h.Secret == "" {
		return nil
	}
	raw, err := os.ReadFile(h.Secret)
	if err != nil {
		return fmt.Errorf("read webhook.secret_file: %w", err)
	}
	key := bytes.TrimSpace(raw)
	if coded, is := bytes.CutPrefix(key, []byte("whsec_")); is {
		if key, err = base64.StdEncoding.DecodeString(string(coded)); err != nil {
			return fmt.Errorf("%s: behind whsec_ there is no base64", h.Secret)
		}
	}
	if len(key) == 0 {
		return fmt.Errorf("%s is empty: want the key of the signatures, such as openssl rand -base64 32 makes", h.Secret)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}
