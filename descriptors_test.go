package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTheHealthPortHasRoomWhenTheDataPortIsFull takes all the connections that clients may have.
func TestTheHealthPortHasRoomWhenTheDataPortIsFull(t *testing.T) {
	p := freePorts(t)
	pilotlight := start(t, "run", "-c", p.configure(t, "http: '"+freeAddress(t)+"'", "limits: {connections: 3}\n"))
	until(t, "http://"+p.health+"/livez", http.StatusOK)
	closed := 0
	for i := range 10 {
		conn, err := net.Dial("tcp", p.data)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if i < 3 {
			continue
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			closed++
		}
		if status, _ := get(t, "http://"+p.health+"/livez"); status != http.StatusOK {
			t.Errorf("/livez: %d", status)
		}
	}
	if closed != 7 {
		t.Errorf("%d connections were closed, expected 7", closed)
	}
	pilotlight.line("limits.connections is reached")
	if _, body := get(t, "http://"+p.admin+"/statusz"); !strings.Contains(body, `"clients":{"open":3,"limit":3,"refused":7}`) {
		t.Errorf("/statusz: %s", body)
	}
}
