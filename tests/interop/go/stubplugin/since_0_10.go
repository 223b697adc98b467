//go:build nri010

package main

import (
	"context"

	"github.com/containerd/nri/pkg/api"
)

func (o *observer) UpdatePodSandbox(_ context.Context, pod *api.PodSandbox, _, resources *api.LinuxResources) error {
	o.log.recordChange("UpdatePodSandbox", pod, nil, resources)
	return nil
}

func (o *observer) PostUpdatePodSandbox(_ context.Context, pod *api.PodSandbox) error {
	o.log.record("PostUpdatePodSandbox", pod, nil)
	return nil
}

func (o *observer) ValidateContainerAdjustment(_ context.Context, req *api.ValidateContainerAdjustmentRequest) error {
	o.log.recordChange("ValidateContainerAdjustment", req.GetPod(), req.GetContainer(),
		req.GetAdjust().GetLinux().GetResources())
	return nil
}
