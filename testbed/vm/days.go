package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/e2e"
	"github.com/forsd/forsd/testbed/mend"
)

// byPage mends a warning by the commands of the page that forsctl links to, among the
// documents of the package. The simulator's command does the work that commands cannot
// do. A plan is in force then, and verified.
func (s *site) byPage(ctx context.Context, code, hand string) *api.Status {
	if s.failed != nil {
		return &api.Status{}
	}
	s.until(ctx, code+" is shown", func(try *site) { try.says(ctx, "forsctl doctor", code) })
	operator := &mend.Operator{
		Run: func(ctx context.Context, script string) (string, error) {
			return s.guest.run(ctx, commandLimit, script)
		},
		Hand: func(string) error { s.console(ctx, hand); return s.failed },
		Docs: "/usr/share/doc/forsd",
	}
	ran, err := operator.Mend(ctx, code)
	if err != nil {
		s.fail("the page about %s: %w", code, err)
	}
	fmt.Println(indent(code + ":\n" + strings.Join(ran, "\n")))
	status := s.await(ctx, "the end of "+code, func(t *api.Status) bool { return inForce(t) && !e2e.HasWarning(t, code) })
	s.verified(ctx)
	return status
}

// edit changes settings of forsd.yaml by a script of sed, and restarts forsd.
func (s *site) edit(ctx context.Context, script string) {
	s.all(ctx, "cp /etc/forsd/forsd.yaml /root; sed -i -E '"+script+"' /etc/forsd/forsd.yaml; ! cmp -s /root/forsd.yaml /etc/forsd/forsd.yaml && systemctl restart forsd")
}

// badCable: errors are counted at a cable.
func (s *site) badCable(ctx context.Context) string {
	s.edit(ctx, `s/^(  every): 1m/\1: 1s/; s/^(  short): .*/\1: 20s/; s/^(  long): .*/\1: 40s/`)
	n := 1000
	count := func() string {
		return fmt.Sprintf("PerformanceSet %s PortCounters.SymbolErrorCounter=%d", s.cable(1), n)
	}
	s.until(ctx, "the errors are seen", func(try *site) {
		n = min(n+1000, 60_000)
		try.console(ctx, count())
		try.says(ctx, "forsctl doctor", "cable-suspect")
	})
	s.byPage(ctx, "cable-suspect", count())
	s.all(ctx, "mv /root/forsd.yaml /etc/forsd/forsd.yaml; systemctl restart forsd")
	s.planned(ctx)
	return "drained, mended and back"
}

// spineGone: a spine dies, and is repaired.
func (s *site) spineGone(ctx context.Context) string {
	before := s.status(ctx)
	s.console(ctx, `unlink "Spine001"`)
	s.await(ctx, "a plan without the spine", func(t *api.Status) bool {
		return inForce(t) && t.Epoch > before.Epoch && e2e.HasWarning(t, "spine-down")
	})
	s.verified(ctx)
	s.byPage(ctx, "spine-down", `relink "Spine001"`)
	return "a plan without it, and one with it"
}

// expired: forsd's certificate expired yesterday.
func (s *site) expired(ctx context.Context) string {
	s.all(ctx, `mkdir -p /etc/forsd/tls; cd /etc/forsd/tls
openssl req -new -newkey rsa:2048 -nodes -subj /CN=forsd-vm -keyout forsd.key -out forsd.csr
openssl x509 -req -in forsd.csr -signkey forsd.key -days -1 -out forsd.pem
chown root:forsd forsd.*; chmod 640 forsd.*`)
	s.edit(ctx, `s|^(    listen): ""|\1: 127.0.0.1:7443|; s|^(    certificate): ""|\1: /etc/forsd/tls/forsd.pem|; s|^(    key): ""|\1: /etc/forsd/tls/forsd.key|`)
	s.byPage(ctx, "expired", "")
	s.all(ctx, "openssl s_client -connect 127.0.0.1:7443 </dev/null | openssl x509 -noout -checkend 0")
	s.all(ctx, "mv /root/forsd.yaml /etc/forsd/forsd.yaml; rm -r /etc/forsd/tls; systemctl restart forsd")
	s.planned(ctx)
	return "renewed, and taken up without a restart"
}
