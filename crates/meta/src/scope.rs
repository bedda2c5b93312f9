//! The scope of a resource, as a value and as a type.

/// Whether the objects of a resource are namespaced or cluster-scoped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The objects have no namespace, and their names are unique within the cluster.
    Cluster,
    /// Each object is in a namespace, and object names are unique within a namespace.
    Namespaced,
}

/// A [`Scope`] that is known at compile time. The implementations are [`NamespaceScope`] and [`ClusterScope`]. Some
/// methods are available only for one of these scopes. For example, a call with a namespace does not compile for a
/// cluster-scoped kind.
pub trait ResourceScope: 'static {
    /// The [`Scope`] that this type represents.
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
