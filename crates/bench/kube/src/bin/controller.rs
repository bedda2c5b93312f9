//! Runs one workload of the `controller` benchmark with kube-rs: `controller WORK --objects N --workers N --server
//! KUBECONFIG [--quick]`.

fn main() {
    kube_peer::controller::main();
}
