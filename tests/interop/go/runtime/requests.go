package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/containerd/nri/pkg/api"
)

var errNotStarted = errors.New("not started")

func (s *session) createContainer(c *command) (reply, error) {
	if s.nri == nil {
		return nil, errNotStarted
	}
	pod, container, err := c.objects(containerShare(orDefault(c.RequestSize, defaultRequestBytes)))
	if err != nil {
		return nil, err
	}
	req := &api.CreateContainerRequest{Pod: pod, Container: container}

	ctx, timeout := context.Background(), s.requestTimeout
	if c.TimeoutMS > 0 {
		timeout = min(timeout, milliseconds(c.TimeoutMS))
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	if c.RequestSize > 0 {
		if err := padRequest(req, timeout, c.RequestSize); err != nil {
			return nil, err
		}
		s.wire.measureNext()
	}

	defer s.blockSync()()
	began := time.Now()
	rpl, err := s.nri.CreateContainer(ctx, req)
	took := time.Since(began)

	if c.RequestSize > 0 {
		if size := s.wire.measuredSize(); size != 0 && size != c.RequestSize {
			return nil, fmt.Errorf("sent %d bytes instead of %d", size, c.RequestSize)
		}
	}
	if err != nil {
		return nil, err
	}
	return reply{
		"adjust": adjustToJSON(rpl.GetAdjust()),
		"update": updatesToJSON(rpl.GetUpdate()),
		"micros": took.Microseconds(),
	}, nil
}

func (s *session) updateContainer(c *command) (reply, error) {
	if s.nri == nil {
		return nil, errNotStarted
	}
	pod, container, err := c.objects(containerShare(defaultRequestBytes))
	if err != nil {
		return nil, err
	}
	resources, err := c.resources()
	if err != nil {
		return nil, err
	}

	defer s.blockSync()()
	rpl, err := s.nri.UpdateContainer(context.Background(), &api.UpdateContainerRequest{
		Pod:            pod,
		Container:      container,
		LinuxResources: resources,
	})
	if err != nil {
		return nil, err
	}
	return reply{"update": updatesToJSON(rpl.GetUpdate())}, nil
}

func (s *session) stopContainer(c *command) (reply, error) {
	if s.nri == nil {
		return nil, errNotStarted
	}
	pod, container, err := c.objects(containerShare(defaultRequestBytes))
	if err != nil {
		return nil, err
	}

	defer s.blockSync()()
	rpl, err := s.nri.StopContainer(context.Background(), &api.StopContainerRequest{
		Pod:       pod,
		Container: container,
	})
	if err != nil {
		return nil, err
	}
	return reply{"update": updatesToJSON(rpl.GetUpdate())}, nil
}

// blockSync keeps plugins from being synchronized during a request, as real
// runtimes do where the library lets them.
func (s *session) blockSync() (unblock func()) {
	s.mu.Lock()
	finished := len(s.syncs)
	s.mu.Unlock()
	return blockSync(s.nri, finished)
}

// adjustToJSON returns nil for an adjustment that no plugin has touched.
func adjustToJSON(adjust *api.ContainerAdjustment) json.RawMessage {
	if isHollow(adjust.ProtoReflect()) {
		return nil
	}
	return toJSON(adjust)
}

// isHollow tells if there is nothing in a message but further hollow messages.
// The library merges into such a skeleton, whose shape depends on its version.
// An Optional message, in contrast, says something even when it is empty.
func isHollow(m protoreflect.Message) bool {
	if strings.HasPrefix(string(m.Descriptor().Name()), "Optional") {
		return false
	}
	hollow := true
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		isMessage := field.Message() != nil && !field.IsList() && !field.IsMap()
		hollow = isMessage && isHollow(value.Message())
		return hollow
	})
	return hollow
}
