//! Runs one workload of the area `controller` on kube-rs once: `controller WORK --objects N --workers N --server KUBECONFIG [--quick]`.

fn main() {
    kube_peer::controller::main();
}
