# Runs in the guest, once: makes it a machine on which Kubernetes' own tests of a node
# can run. They start kubelet, an API server and etcd by themselves.
set -e
name=e2e-node
echo $name >/proc/sys/kernel/hostname
printf '127.0.0.1 localhost\n192.0.2.1 %s\n' $name >/etc/hosts
# kubelet takes the address of the interface with the default route as the node's.
modprobe dummy
modprobe veth
ip link add dummy0 type dummy
ip address add 192.0.2.1/24 dev dummy0
ip link set dummy0 up
ip route add default via 192.0.2.2
mkdir -p /etc/cni/net.d /var/lib/e2e/report
cp /node/etc/10-pods.conflist /etc/cni/net.d/

# The tests call sudo, and they run as root already.
printf '#!/bin/sh\nexec "$@"\n' >/usr/local/bin/sudo
chmod +x /usr/local/bin/sudo

# There is no registry: the images that the tests name are all the same one.
for image in $IMAGES; do
    ctr -n k8s.io images tag --force localhost/box:1 "$image" >/dev/null
done

# The kernel's options are not in Debian's package, so the tests cannot look at them.
cat >/var/lib/e2e/system.yaml <<END
os: Linux
kernelSpec:
  versions: [".*"]
END
{
    cat /node/etc/kubelet.yaml
    echo "cgroupDriver: systemd"
    echo "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock"
} >/var/lib/e2e/kubelet.yaml

# For the tests about swap; without them, kubelet does not use it.
dd if=/dev/zero of=/swap bs=1M count=256 status=none
chmod 600 /swap
mkswap -q /swap
swapon /swap
