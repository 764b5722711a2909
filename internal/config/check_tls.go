package config

import "errors"

// checkTLS reports files that are named and cannot be used.
func (d *document) checkTLS(c *Config) {
	report := func(path string, err error) {
		if file, ok := errors.AsType[*FileError](err); ok {
			d.reportf(join(path, file.Key), "%s", file.Err.Error())
		}
	}
	if !c.Listen.TLS.IsZero() {
		_, _, err := c.Listen.TLS.Load()
		report("listen.tls", err)
	}
	if !c.XDS.TLS.IsZero() {
		_, _, err := c.XDS.TLS.Load()
		report("xds.tls", err)
	}
	_, err := c.Backend.TLS.Load()
	report("backend.tls", err)
}

// tlsPairs warns of TLS settings that nothing uses.
func tlsPairs(c *Config) []contradiction {
	plain := !c.Backend.HTTP.TLS && !c.Backend.GRPC.TLS
	found := make([]contradiction, 0, 6)
	for _, key := range []string{"ca", "cert", "key", "server_name", "insecure_skip_verify"} {
		found = append(found, contradiction{
			"backend.tls." + key, "", plain, "has no effect: neither backend.http nor backend.grpc is an https address",
		})
	}

	return append(found, contradiction{
		"backend.tls.ca", "backend.tls.insecure_skip_verify", c.Backend.TLS.InsecureSkipVerify && c.Backend.TLS.CA != "",
		"has no effect: with backend.tls.insecure_skip_verify any certificate is believed",
	})
}
