package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"

	"github.com/containerd/nri/pkg/api"
)

const (
	defaultRequestBytes = 3000
	paddingKey          = "interop.nriplugin.test/padding"

	// What a request carries besides its container: the pod, the envelope and
	// the key of the padding.
	requestOverhead = 750
)

// containerShare is the size of a default container that leaves room to pad
// the whole request to the given size.
func containerShare(requestBytes int) int {
	return min(requestBytes, defaultRequestBytes) - requestOverhead
}

// padRequest makes the ttRPC payload of the request exactly size bytes long.
// The padding moves several length prefixes at once (annotation, map entry,
// container, request, envelope), each of which grows in steps, so the right
// length is searched for. A few sizes lie inside a step and cannot be had.
func padRequest(req *api.CreateContainerRequest, timeout time.Duration, size int) error {
	fillAsLibrary(req.Container)

	smallest := padWith(req, timeout, 0)
	if size < smallest {
		return fmt.Errorf("request size %d is below the minimum of %d", size, smallest)
	}
	// Adding what is missing settles within a few rounds, or jumps back and forth
	// over a size that cannot be had.
	padding := size - smallest
	for range 10 {
		missing := size - padWith(req, timeout, padding)
		if missing == 0 {
			return nil
		}
		padding = max(padding+missing, 0)
	}
	return fmt.Errorf("no request has a size of exactly %d bytes", size)
}

// padWith sets the padding and returns the size of the resulting payload.
func padWith(req *api.CreateContainerRequest, timeout time.Duration, padding int) int {
	req.Container.Annotations[paddingKey] = strings.Repeat("x", padding)
	return proto.Size(&ttrpc.Request{
		Service: "nri.pkg.api.v1alpha1.Plugin",
		Method:  "CreateContainer",
		Payload: make([]byte, proto.Size(req)),
		// What is left of the timeout when the library sends the request.
		TimeoutNano: timeout.Nanoseconds() - 1,
	})
}

// fillAsLibrary adds the empty messages that the library would add before
// sending, as they have a size, too.
func fillAsLibrary(container *api.Container) {
	if container.Annotations == nil {
		container.Annotations = map[string]string{}
	}
	if container.Hooks == nil {
		container.Hooks = &api.Hooks{}
	}
	if container.Linux == nil {
		container.Linux = &api.LinuxContainer{}
	}
	if container.Linux.Resources == nil {
		container.Linux.Resources = &api.LinuxResources{}
	}
	if container.Linux.Resources.Memory == nil {
		container.Linux.Resources.Memory = &api.LinuxMemory{}
	}
	if container.Linux.Resources.Cpu == nil {
		container.Linux.Resources.Cpu = &api.LinuxCPU{}
	}
}
