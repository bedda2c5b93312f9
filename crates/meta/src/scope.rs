//! The scope of a resource, as a value and as a type.

/// The scope of a resource's objects, which are either namespaced or cluster-scoped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Objects are cluster-scoped. The name of an object is unique in the cluster.
    Cluster,
    /// Objects are namespaced. The name of an object is unique in its namespace.
    Namespaced,
}

/// A trait for types that each represent one [`Scope`]. The implementations are [`NamespaceScope`] and
/// [`ClusterScope`]. A method that works only for one scope requires the type of this scope in a trait bound.
/// Therefore, a call of a namespaced method for a cluster-scoped kind does not compile.
pub trait ResourceScope: 'static {
    /// The scope as a value.
    const SCOPE: Scope;
}

/// The scope of namespaced resources.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceScope;

/// The scope of cluster-scoped resources.
#[derive(Clone, Copy, Debug)]
pub struct ClusterScope;

impl ResourceScope for NamespaceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl ResourceScope for ClusterScope {
    const SCOPE: Scope = Scope::Cluster;
}
