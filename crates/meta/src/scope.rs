//! Whether the objects of a resource live in namespaces: as a value, and as a type.

/// Whether the objects of a resource live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One set of names for the cluster.
    Cluster,
    /// A set of names in each namespace.
    Namespaced,
}

/// A [`Scope`] as a type: [`NamespaceScope`] or [`ClusterScope`]. What makes sense in one scope only asks for that one, so that a
/// namespaced call on a cluster-scoped kind does not compile.
pub trait ResourceScope: 'static {
    /// The same as a value.
    const SCOPE: Scope;
}

/// The scope of resources that live in namespaces.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceScope;

/// The scope of resources that live outside of namespaces.
#[derive(Clone, Copy, Debug)]
pub struct ClusterScope;

impl ResourceScope for NamespaceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl ResourceScope for ClusterScope {
    const SCOPE: Scope = Scope::Cluster;
}
