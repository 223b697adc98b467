package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"
)

// wire watches the ttRPC clients which the library makes, one per plugin. The
// library gives no access to them, but takes options that see every client.
type wire struct {
	mu      sync.Mutex
	clients map[*ttrpc.Client]struct{}
	total   int
	closed  bool

	measuring atomic.Bool
	measured  atomic.Int64
}

func newWire() *wire {
	return &wire{clients: map[*ttrpc.Client]struct{}{}}
}

func (w *wire) clientOptions() []ttrpc.ClientOpts {
	return []ttrpc.ClientOpts{w.track, ttrpc.WithUnaryClientInterceptor(w.measure)}
}

func (w *wire) track(client *ttrpc.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		// Accepted just before the listener was closed.
		client.Close()
		return
	}
	w.clients[client] = struct{}{}
	w.total++
	go func() {
		client.UserOnCloseWait(context.Background())
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.clients, client)
	}()
}

// used tells if there has been any plugin yet.
func (w *wire) used() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total > 0
}

// open counts the plugin connections, registered or not.
func (w *wire) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.clients)
}

// close ends all plugin connections and waits for it.
func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	clients := make([]*ttrpc.Client, 0, len(w.clients))
	for client := range w.clients {
		clients = append(clients, client)
	}
	w.mu.Unlock()

	for _, client := range clients {
		client.Close()
		client.UserOnCloseWait(context.Background())
	}
}

// measureNext makes the next request be measured.
func (w *wire) measureNext() {
	w.measured.Store(0)
	w.measuring.Store(true)
}

// measuredSize is the size of the request sent since measureNext, 0 if none was.
func (w *wire) measuredSize() int {
	w.measuring.Store(false)
	return int(w.measured.Load())
}

func (w *wire) measure(ctx context.Context, req *ttrpc.Request, resp *ttrpc.Response,
	_ *ttrpc.UnaryClientInfo, next ttrpc.Invoker) error {
	if w.measuring.CompareAndSwap(true, false) {
		w.measured.Store(int64(proto.Size(req)))
	}
	return next(ctx, req, resp)
}
