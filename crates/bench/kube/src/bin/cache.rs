//! Runs one workload of the `cache` benchmark with kube-rs: `cache WORK --server URL [--quick]`.

fn main() {
    kube_peer::main();
}
