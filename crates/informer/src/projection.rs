//! Selects the fields of an object that the cache keeps.

/// Selects which fields of each object an informer keeps. Dropped fields are cut from the bytes before decoding, so
/// they cost no decoding time and no memory. [`InformerConfig::projection`](crate::InformerConfig::projection) sets the
/// projection of an informer.
///
/// The default drops [`MANAGED_FIELDS`](Self::MANAGED_FIELDS), which often make up more than half of an object. If an
/// update does not contain managed fields, the server keeps the stored managed fields. client-go keeps the whole object
/// by default.
///
/// # Writing a cached object back
///
/// A cached object may lack fields that the object has on the server. When a cached object is written back, the effect
/// on the dropped fields depends on the request:
///
/// | request | dropped fields |
/// |---|---|
/// | server-side apply, any patch | stay: a patch changes only the fields that it names |
/// | update of `status`, `scale` and so on | stay, unless the subresource accepts the field |
/// | **update (PUT) of the object** | **are deleted, like every field that the update lacks**, except `managedFields` |
///
/// A server keeps `managedFields` if an update does not contain them, so objects with the default projection can safely
/// be written back. Objects with any other projection are not safe to write back with an update. For example, if the
/// projection drops the annotation of `kubectl apply`, an update with a cached object deletes this annotation in the
/// cluster. Without the annotation, the next `kubectl apply` does not delete fields that were removed from the
/// manifest. A program that drops more than the default must use patches, or must read the object from the server
/// before it sends an update.
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
    pub(crate) left_out: Vec<Vec<String>>,
}

impl Projection {
    /// The path of `metadata.managedFields`, which records which field manager owns each field. API servers and
    /// programs that use server-side apply need the managed fields.
    pub const MANAGED_FIELDS: &[&str] = &["metadata", "managedFields"];

    /// The path of the annotation that contains the last manifest of a client-side `kubectl apply`. The annotation is a
    /// copy of most of the object. The default projection keeps this annotation. If a projection drops this annotation,
    /// an update with a cached object deletes the annotation in the cluster: see
    /// [above](Self#writing-a-cached-object-back).
    pub const LAST_APPLIED: &[&str] = &["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"];

    /// Creates a projection that keeps all fields of an object.
    pub fn whole() -> Self {
        Self { left_out: Vec::new() }
    }

    /// Changes the projection to also drop the field at `path`. `path` contains the field names, starting at the root
    /// of the object. If the path leads through an array, it applies to each item: `["spec", "containers", "env"]`
    /// drops the field from all containers.
    ///
    /// # Panics
    ///
    /// Panics if `path` is a field that an informer or a controller needs. Needed fields are the object itself, its
    /// `metadata`, and the metadata fields `name`, `namespace`, `uid`, `resourceVersion`, `deletionTimestamp` and
    /// `finalizers`. Without `finalizers`, a controller that adds its finalizer would delete the finalizers of other
    /// controllers.
    #[must_use]
    pub fn without(mut self, path: &[&str]) -> Self {
        const NEEDED: [&str; 6] = ["name", "namespace", "uid", "resourceVersion", "deletionTimestamp", "finalizers"];
        let is_needed = match path {
            [] | ["metadata"] => true,
            ["metadata", field, ..] => NEEDED.contains(field),
            _ => false,
        };
        assert!(!is_needed, "informers and controllers need the field at {path:?}");
        self.left_out.push(path.iter().map(|&name| name.to_owned()).collect());
        self
    }

    pub(crate) fn leaves_out(&self, path: &[&str]) -> bool {
        self.left_out.iter().any(|left_out| path.starts_with(&left_out.iter().map(String::as_str).collect::<Vec<_>>()))
    }
}

impl Default for Projection {
    fn default() -> Self {
        Self::whole().without(Self::MANAGED_FIELDS)
    }
}
