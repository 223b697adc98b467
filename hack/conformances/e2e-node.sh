# Runs in the guest, once: makes it a machine on which Kubernetes' own tests of a node
# can run. The API server is that of the node's cluster. kubelet is started as the tests
# would start it: they find its unit by the name, and its configuration beside themselves.
set -e
. /node/settings
home=/var/lib/e2e
mkdir -p $home/report
/node/bin/kubernetes stop

# The value of a word such as node.api=6443 on the kernel's command line.
told() { sed -n "s/.*\bnode\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

cp /with/e2e_node.test $home/
echo "--host=https://10.0.2.2:$(told api) --bearer-token=$(told token)" >$home/cluster
mkdir $home/kubelet.conf.d $home/static-pods
{
    cat /etc/kubernetes/kubelet.yaml
    echo "readOnlyPort: 10255"
    # The specs about resizes limit a container to 20 or 30 thousandths of a CPU. With
    # that, an emulated CPU has taken more than the usual two minutes to start it.
    echo "runtimeRequestTimeout: 10m"
    echo "staticPodPath: $home/static-pods"
} >$home/kubelet-config

# The tests call sudo, and they run as root already.
printf '#!/bin/sh\nexec "$@"\n' >/usr/local/bin/sudo
chmod +x /usr/local/bin/sudo

# There is no registry: the images that the tests name are all the same one.
for image in $IMAGES; do
    ctr -n k8s.io images tag --force localhost/box:1 "$image" >/dev/null
done

# The kernel's options are not in Debian's package, so the tests cannot look at them.
cat >$home/system.yaml <<END
os: Linux
kernelSpec:
  versions: [".*"]
END

# For the tests about swap; without them, kubelet does not use it.
dd if=/dev/zero of=/swap bs=1M count=256 status=none
chmod 600 /swap
mkswap -q /swap
swapon /swap

systemd-run -q --unit=kubelet-e2e --slice=runtime.slice --remain-after-exit \
    -p Delegate=true -p KillMode=process -p StandardError=append:/var/log/kubelet.log -E "PATH=$PATH" \
    /node/bin/kubelet --kubeconfig=/etc/kubernetes/kubeconfig --config=$home/kubelet-config \
    --config-dir=$home/kubelet.conf.d --hostname-override="$NAME" --node-ip=10.0.2.15
