// Package polatis drives HUBER+SUHNER Polatis optical circuit switches by RESTCONF
// (RFC 8040) or NETCONF (RFC 6241): their cross-connects are the pairs of the YANG module
// optical-switch, each an ingress and an egress port.
package polatis

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/forsd/forsd/optical/driver"
)

const (
	resource  = "/api/data/optical-switch:cross-connects"
	mediaType = "application/yang-data+json"
	maxAnswer = 1 << 20
	timeout   = 10 * time.Second // of a request; a switch takes tens of milliseconds to move
)

// Switch is a switch that is driven by RESTCONF.
type Switch struct {
	url                string
	username, password string
	client             *http.Client
}

// New makes a driver of the switch at address, such as https://192.0.2.1:8008. If client
// is nil, it uses one with a timeout that follows no redirects.
func New(address, username, password string, client *http.Client) (*Switch, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an address of a switch: want for instance https://192.0.2.1:8008", address)
	}
	if client == nil {
		client = newClient(nil)
	}
	return &Switch{url: strings.TrimSuffix(address, "/") + resource, username: username, password: password, client: client}, nil
}

// Open makes the driver of an entry of a site, with its password, key and certificates.
func Open(e *driver.Entry) (driver.Switch, error) {
	if e.Driver == driver.PolatisNetconf {
		return openNetconf(e)
	}
	password := ""
	if e.PasswordFile != "" {
		var err error
		if password, err = readPassword(e); err != nil {
			return nil, err
		}
	}
	client := newClient(nil)
	if e.CAFile != "" {
		data, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates for switch %s: %w", e.Name, err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("%s has no certificate for switch %s: want PEM", e.CAFile, e.Name)
		}
		client = newClient(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	}
	return New(e.URL, e.Username, password, client)
}

func readPassword(e *driver.Entry) (string, error) {
	data, err := os.ReadFile(e.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the password of switch %s: %w", e.Name, err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

func newClient(t *tls.Config) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{TLSClientConfig: t, MaxIdleConnsPerHost: 1},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// container is the resource as JSON.
type container struct {
	CrossConnects struct {
		Pair []driver.Pair `json:"pair"`
	} `json:"optical-switch:cross-connects"`
}

// Connected lists the current cross-connects.
func (s *Switch) Connected(ctx context.Context) ([]driver.Pair, error) {
	status, body, err := s.do(ctx, http.MethodGet, "", nil)
	if err != nil {
		return nil, err
	}
	// A switch without cross-connects has no such data (RFC 8040, section 4.3).
	if status == http.StatusNotFound || status == http.StatusNoContent {
		return nil, nil
	}
	if status != http.StatusOK {
		return nil, refusal("read the cross-connects", status, body)
	}
	var c container
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("read the cross-connects of %s: %w", s.url, err)
	}
	return c.CrossConnects.Pair, nil
}

// Change removes cross-connects one by one and makes pairs in one request: a plain patch
// (RFC 8040, section 4.6.1), which merges them into the others.
func (s *Switch) Change(ctx context.Context, remove []int, pairs []driver.Pair) error {
	for _, ingress := range remove {
		status, body, err := s.do(ctx, http.MethodDelete, fmt.Sprintf("/pair=%d", ingress), nil)
		if err != nil {
			return err
		}
		if status/100 != 2 && status != http.StatusNotFound {
			return refusal(fmt.Sprintf("remove the cross-connect of port %d", ingress), status, body)
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	var c container
	c.CrossConnects.Pair = pairs
	payload, _ := json.Marshal(c) // only integers
	status, body, err := s.do(ctx, http.MethodPatch, "", payload)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return refusal("write the cross-connects", status, body)
	}
	return nil
}

// do sends a request for the cross-connects, or a part of them, and reads the response.
func (s *Switch) do(ctx context.Context, method, part string, payload []byte) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+part, bytes.NewReader(payload))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", mediaType)
	if payload != nil {
		req.Header.Set("Content-Type", mediaType)
	}
	if s.username != "" {
		req.SetBasicAuth(s.username, s.password)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer of %s: %w", s.url, err)
	}
	if len(body) > maxAnswer {
		return 0, nil, fmt.Errorf("the answer of %s is longer than %d bytes", s.url, maxAnswer)
	}
	return resp.StatusCode, body, nil
}

// refusal returns the error of a response, with the switch's own error messages, if any
// (RFC 8040, section 7.1).
func refusal(doing string, status int, body []byte) error {
	var answer struct {
		Errors struct {
			Error []struct {
				Tag     string `json:"error-tag"`
				Message string `json:"error-message"`
			} `json:"error"`
		} `json:"ietf-restconf:errors"`
	}
	text := fmt.Sprintf("%s: the switch answers %d %s", doing, status, http.StatusText(status))
	if json.Unmarshal(body, &answer) == nil {
		for _, e := range answer.Errors.Error {
			text += fmt.Sprintf("; %s %s", e.Tag, e.Message)
		}
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		text += "; check username and password_file"
	}
	return errors.New(text)
}
