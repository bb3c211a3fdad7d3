package daemon

import (
	"cmp"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/server"
)

// Problems lists the problems of a configuration that do not stop forsd but limit its
// API: unusable TLS files, and addresses that another program has. If forsd is running,
// addresses are not checked, because it has them itself. Remarks are certificates and
// lists that have expired or will soon, and addresses that the machine does not have yet.
func Problems(c *config.Config) (broken, remarks []string) {
	add := func(err error) { broken = append(broken, err.Error()) }
	if files := c.API.TLS.Files; files.Certificate != "" {
		for _, f := range access.Judge(access.LoadCertificates(files, add).Terms(), time.Now()) {
			remarks = append(remarks, f.Text)
		}
	}
	if running, err := net.Dial("unix", c.API.Socket); err == nil {
		_ = running.Close()
		return broken, remarks
	}
	for _, x := range [][2]string{{"api.listen", c.API.Listen}, {"api.tls.listen", c.API.TLS.Listen}} {
		if err := server.CanListen(cmp.Or(x[1], "127.0.0.1:0")); errors.Is(err, syscall.EADDRNOTAVAIL) {
			remarks = append(remarks, x[0]+": "+err.Error())
		} else if err != nil {
			broken = append(broken, x[0]+": "+err.Error())
		}
	}
	return broken, remarks
}
