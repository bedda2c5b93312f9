//! What of each object is kept.

/// What of each object is kept: all but some fields, which are cut out of its bytes before it is decoded. So they cost no time to
/// decode and no memory. [`InformerConfig::projection`](crate::InformerConfig::projection) has it.
///
/// The default leaves out [`MANAGED_FIELDS`](Self::MANAGED_FIELDS), which are often the larger part of an object, and which an update with such
/// an object does not delete. client-go keeps the whole object.
///
/// # Writing such an object back
///
/// An object of the cache is not the whole object. What becomes of it when it is written back depends on how:
///
/// | how | what was left out |
/// |---|---|
/// | server-side apply, any patch | stays: a patch changes what it names |
/// | update of `status`, `scale` and so on | stays, as far as the subresource does not take the field |
/// | **update (PUT) of the object** | **is deleted, as every field that an update does not bring**; but `managedFields` stay |
///
/// A server keeps the `managedFields` that it has where an update brings none, so the default is safe to write back. Nothing else is. If the
/// annotation of `kubectl apply` is left out, for example, an update with an object from the cache deletes it in the cluster, and the next
/// `kubectl apply` does not delete fields that have gone from the manifest. So a program that leaves out more than the default patches
/// objects, or reads an object from the server before it updates it.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, Projection, SharedInformer};
/// use pintle_meta::{ApiResource, DynamicObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let nodes = ApiResource::new("v1", "Node", "nodes", Scope::Cluster);
///     let nodes = Collection::<DynamicObject>::dynamic(nodes, CollectionConfig::default());
///     let status = json!({"phase": "Running", "images": [{"names": ["busybox"]}]});
///     nodes.put_raw(json!({"metadata": {"name": "n1", "managedFields": [{"manager": "kubelet"}]}, "status": status}));
///
///     let projection = Projection::default().without(&["status", "images"]);
///     let informer = SharedInformer::new(nodes, InformerConfig { projection, ..InformerConfig::default() });
///     informer.start();
///     informer.wait_for_sync().await?;
///     assert_eq!(informer.lister().list()[0].data["status"], json!({"phase": "Running"}));
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    left_out: Vec<Vec<String>>,
}

impl Projection {
    /// Who owns which field: of use to servers, and to programs that apply.
    pub const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];

    /// The manifest that `kubectl apply` was given last, client-side: a copy of most of the object. Kept by default. An update with an
    /// object that lacks it deletes it in the cluster: see [above](Self#writing-such-an-object-back).
    pub const LAST_APPLIED: &[&str] = &["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"];

    /// All of each object.
    pub fn whole() -> Self {
        Self { left_out: Vec::new() }
    }

    /// The same without the field at `path`: the names that lead to it from the root. Where one of them is an array, it means each of
    /// its items, so `["spec", "containers", "env"]` is left out of all containers.
    ///
    /// # Panics
    ///
    /// If an informer cannot do without it: the whole object or its `metadata`, and in that `name`, `namespace`, `uid` and
    /// `resourceVersion`.
    #[must_use]
    pub fn without(mut self, path: &[&str]) -> Self {
        let is_needed =
            matches!(path, [] | ["metadata"] | ["metadata", "name" | "namespace" | "uid" | "resourceVersion", ..]);
        assert!(!is_needed, "an informer cannot do without the field at {path:?}");
        self.left_out.push(path.iter().map(|&name| name.to_owned()).collect());
        self
    }

    pub(crate) fn leaves_out(&self, path: &[&str]) -> bool {
        self.left_out.iter().any(|left_out| path.starts_with(&left_out.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    pub(crate) fn left_out(&self) -> &[Vec<String>] {
        &self.left_out
    }
}

impl Default for Projection {
    fn default() -> Self {
        Self::whole().without(Self::MANAGED_FIELDS)
    }
}
