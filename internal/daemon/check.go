package daemon

import (
	"fmt"
	"net"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
)

// Problems lists the reasons why the API could not be served as a configuration says, though
// forsd would work with it: files of TLS that cannot be used, and addresses that another program
// has. A forsd that runs has its addresses itself. Expiring are certificates and lists that have
// expired, or will soon.
func Problems(c *config.Config) (broken, expiring []string) {
	add := func(err error) { broken = append(broken, err.Error()) }
	if files := certificateFiles(c); files.Certificate != "" {
		for _, f := range access.Judge(access.LoadCertificates(files, add).Terms(), time.Now()) {
			expiring = append(expiring, f.Text)
		}
	}
	if running, err := net.Dial("unix", c.API.Socket); err == nil {
		_ = running.Close()
		return broken, expiring
	}
	for _, x := range []struct{ setting, address string }{{"api.listen", c.API.Listen}, {"api.tls.listen", c.API.TLS.Listen}} {
		if x.address == "" {
			continue
		}
		if err := api.CanListen(x.address); err != nil {
			add(fmt.Errorf("%s: %w", x.setting, err))
		}
	}
	return broken, expiring
}
