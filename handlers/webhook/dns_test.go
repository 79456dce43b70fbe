package webhook_test

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsServer is a small DNS server in this process. It answers each question for IPv4 by what answer returns, and has no
// other records.
type dnsServer struct {
	conn   net.PacketConn
	answer func(name string, asked int) []netip.Addr // asked counts the questions for the name's IPv4, from 1

	mu    sync.Mutex
	asked map[string]int
}

// resolver starts a DNS server and returns a resolver that asks it alone.
func resolver(t *testing.T, answer func(name string, asked int) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{conn: conn, answer: answer, asked: map[string]int{}}
	var done sync.WaitGroup
	done.Go(s.run)
	t.Cleanup(func() {
		_ = conn.Close()
		done.Wait()
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *dnsServer) run() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var message dnsmessage.Message
		if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
			continue
		}
		message.Response, message.RecursionAvailable, message.Additionals = true, true, nil
		question := message.Questions[0]
		if question.Type == dnsmessage.TypeA {
			for _, address := range s.addresses(question.Name.String()) {
				message.Answers = append(message.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: address.As4()},
				})
			}
		}
		if packed, err := message.Pack(); err == nil {
			_, _ = s.conn.WriteTo(packed, from)
		}
	}
}

func (s *dnsServer) addresses(name string) []netip.Addr {
	s.mu.Lock()
	s.asked[name]++
	asked := s.asked[name]
	s.mu.Unlock()
	return s.answer(name, asked)
}

// always resolves each name to the same addresses.
func always(addresses ...string) func(string, int) []netip.Addr {
	return func(string, int) (all []netip.Addr) {
		for _, address := range addresses {
			all = append(all, netip.MustParseAddr(address))
		}
		return all
	}
}
