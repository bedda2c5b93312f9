//! Runs one workload of the area `cache` on kube-rs once: `cache WORK --server URL [--quick]`.

fn main() {
    kube_peer::main();
}
