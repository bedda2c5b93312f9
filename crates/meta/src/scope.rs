//! The scope of a resource, as a value and as a type.

/// Whether the objects of a resource are namespaced or cluster-scoped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Objects have no namespace. Object names are unique within the cluster.
    Cluster,
    /// Objects are in a namespace. Object names are unique within a namespace.
    Namespaced,
}

/// A [`Scope`] as a type. The implementations are [`NamespaceScope`] and [`ClusterScope`]. Trait bounds with these
/// types make some methods available for one scope only. For example, code that calls a method for namespaced kinds
/// with a cluster-scoped kind does not compile.
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
