package memnet

// Addr is the address of everything on an in-memory network: there is no port and no host.
type Addr struct{}

// Network implements [net.Addr].
func (Addr) Network() string { return "mem" }

// String implements [net.Addr].
func (Addr) String() string { return "mem" }
