//go:build nri012

package main

import (
	"context"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
)

// lifecycleEvents have a request type each.
func lifecycleEvents() map[string]eventFunc {
	return map[string]eventFunc{
		"RunPodSandbox": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.RunPodSandbox(ctx, &api.RunPodSandboxRequest{Pod: o.pod})
		},
		"StopPodSandbox": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.StopPodSandbox(ctx, &api.StopPodSandboxRequest{Pod: o.pod})
		},
		"RemovePodSandbox": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.RemovePodSandbox(ctx, &api.RemovePodSandboxRequest{Pod: o.pod})
		},
		"PostCreateContainer": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.PostCreateContainer(ctx, &api.PostCreateContainerRequest{Pod: o.pod, Container: o.container})
		},
		"StartContainer": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.StartContainer(ctx, &api.StartContainerRequest{Pod: o.pod, Container: o.container})
		},
		"PostStartContainer": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: o.pod, Container: o.container})
		},
		"PostUpdateContainer": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.PostUpdateContainer(ctx, &api.PostUpdateContainerRequest{Pod: o.pod, Container: o.container})
		},
		"RemoveContainer": func(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
			return nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: o.pod, Container: o.container})
		},
	}
}

func postUpdatePodSandbox(ctx context.Context, nri *adaptation.Adaptation, o occurrence) error {
	return nri.PostUpdatePodSandbox(ctx, &api.PostUpdatePodSandboxRequest{Pod: o.pod})
}
