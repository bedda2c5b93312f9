//! Resource scopes, as values and as types.

/// Whether a resource's objects are namespaced or cluster-scoped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Objects have no namespace. An object's name is unique in the cluster.
    Cluster,
    /// Objects are in a namespace. An object's name is unique in its namespace.
    Namespaced,
}

/// A [`Scope`] as a type. The implementations are [`NamespaceScope`] and [`ClusterScope`]. A method for one scope
/// requires the scope's type in a trait bound. Calling a method for namespaced kinds with a cluster-scoped kind
/// therefore does not compile.
pub trait ResourceScope: 'static {
    /// The corresponding [`Scope`].
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
