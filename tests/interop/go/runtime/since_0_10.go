//go:build nri010

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

const validationSupported = true

func addPodUpdateEvents(funcs map[string]eventFunc) {
	funcs["UpdatePodSandbox"] = updatePodSandbox
	funcs["PostUpdatePodSandbox"] = postUpdatePodSandbox
}

func updatePodSandbox(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
	_, err := nri.UpdatePodSandbox(ctx, &api.UpdatePodSandboxRequest{
		Pod:            o.pod,
		LinuxResources: o.resources,
	})
	return err
}
