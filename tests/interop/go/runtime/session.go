package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

const (
	defaultName           = "containerd"
	defaultVersion        = "2.1.0"
	defaultContainerBytes = 1500
	defaultWaitTimeout    = 10 * time.Second
)

// session is the state that outlives a restart of the runtime.
type session struct {
	// Used by the command loop only.
	nri            *adaptation.Adaptation
	wire           *wire
	requestTimeout time.Duration
	kept           *kept // nil unless start named directories

	// The rest is shared with the callbacks of the library.
	mu        sync.Mutex
	state     runtimeState
	syncs     []syncRecord
	synced    chan struct{} // closed and replaced after each synchronization
	updates   [][]json.RawMessage
	updateErr string
}

// syncRecord is one finished synchronization as wait_sync reports it.
type syncRecord struct {
	Micros  int64             `json:"micros"`
	Updates []json.RawMessage `json:"updates"`
	Error   string            `json:"error"`
}

func newSession() *session {
	watchAdmissions()
	return &session{synced: make(chan struct{})}
}

func (s *session) start(c *command) error {
	if s.nri != nil {
		return errors.New("already started")
	}
	if c.Socket == "" {
		return errors.New("no socket given")
	}
	s.setContainers(c)
	if c.Specs != "" {
		kept, err := openKept(c.Specs, c.Cgroups, c.Template)
		if err != nil {
			return err
		}
		s.kept = kept
	}

	s.requestTimeout = orDefault(milliseconds(c.RequestTimeoutMS), adaptation.DefaultPluginRequestTimeout)
	adaptation.SetPluginRequestTimeout(s.requestTimeout)
	adaptation.SetPluginRegistrationTimeout(
		orDefault(milliseconds(c.RegistrationTimeoutMS), adaptation.DefaultPluginRegistrationTimeout))

	wire := newWire()
	missing := filepath.Join(filepath.Dir(c.Socket), "none")
	options := []adaptation.Option{
		adaptation.WithSocketPath(c.Socket),
		adaptation.WithPluginPath(orDefault(c.PluginDir, missing)),
		adaptation.WithPluginConfigPath(orDefault(c.ConfigDir, missing)),
		adaptation.WithTTRPCOptions(wire.clientOptions(), nil),
	}
	if c.DisableConnections {
		options = append(options, adaptation.WithDisabledExternalConnections())
	}

	synchronize := func(ctx context.Context, send adaptation.SyncCB) error {
		return s.synchronize(ctx, wire, send)
	}
	nri, err := adaptation.New(orDefault(c.Name, defaultName), orDefault(c.Version, defaultVersion),
		synchronize, s.receiveUpdates, options...)
	if err != nil {
		return err
	}
	if err := nri.Start(); err != nil {
		wire.close()
		return err
	}
	s.nri, s.wire = nri, wire
	return nil
}

func (s *session) shutdown() error {
	if s.nri == nil {
		return errNotStarted
	}
	s.stop()
	return nil
}

// stop ends the runtime as the exit of a real one would. The library itself
// closes only the listener and kills what it launched; connections of external
// plugins would stay open for the life of this process.
func (s *session) stop() {
	if s.nri == nil {
		return
	}
	s.nri.Stop()
	s.wire.close()
	s.nri, s.wire = nil, nil
}

func (s *session) setContainers(c *command) {
	if c.Containers == nil {
		return
	}
	state := newRuntimeState(*c.Containers, orDefault(c.ContainerBytes, defaultContainerBytes))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// synchronize is the library's way to ask for all pods and containers.
func (s *session) synchronize(ctx context.Context, wire *wire, send adaptation.SyncCB) error {
	s.mu.Lock()
	state := s.state
	s.mu.Unlock()
	if s.kept != nil {
		state = s.kept.state()
	}

	began := time.Now()
	updates, err := send(ctx, state.pods, state.containers)
	took := time.Since(began)
	if s.kept != nil {
		s.kept.apply(updates)
	}

	// Newer libraries synchronize "all launched plugins" once in Start, even
	// if there are none; nobody could wait for that.
	if !wire.used() {
		return err
	}

	record := syncRecord{Micros: took.Microseconds(), Updates: updatesToJSON(updates)}
	if err != nil {
		record.Error = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs = append(s.syncs, record)
	close(s.synced)
	s.synced = make(chan struct{})
	return err
}

func (s *session) waitSync(c *command) (reply, error) {
	timeout := time.After(orDefault(milliseconds(c.TimeoutMS), defaultWaitTimeout))
	for {
		s.mu.Lock()
		syncs, synced := s.syncs, s.synced
		s.mu.Unlock()

		if len(syncs) >= c.Count {
			// A plugin gets requests only some time after its synchronization.
			if s.nri != nil {
				s.blockSync()()
			}
			return reply{"syncs": append([]syncRecord{}, syncs...)}, nil
		}
		select {
		case <-synced:
		case <-timeout:
			return nil, fmt.Errorf("timeout with %d of %d synchronizations", len(syncs), c.Count)
		}
	}
}

// receiveUpdates is called by the library for unsolicited updates. It must not
// call back into the library, which holds its lock meanwhile.
func (s *session) receiveUpdates(_ context.Context, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) {
	if s.kept != nil {
		return s.kept.apply(updates), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates = append(s.updates, updatesToJSON(updates))
	if s.updateErr != "" {
		return updates, errors.New(s.updateErr)
	}
	return nil, nil
}

func (s *session) takeUpdates() [][]json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := append([][]json.RawMessage{}, s.updates...)
	s.updates = nil
	return taken
}

func (s *session) failUpdates(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updateErr = text
}

func (s *session) countPlugins() (reply, error) {
	if s.nri == nil {
		return nil, errNotStarted
	}
	return reply{"connected": s.wire.open()}, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
