//! The scope of a resource, as a value and as a type.

/// Whether the objects of a resource are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The name of an object is unique in the cluster.
    Cluster,
    /// The name of an object is unique in its namespace.
    Namespaced,
}

/// A [`Scope`] as a type: [`NamespaceScope`] or [`ClusterScope`]. A method that needs a certain scope has a bound on
/// the type of that scope. Therefore, code that uses a namespaced method for a cluster-scoped kind does not compile.
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
