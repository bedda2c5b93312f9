//! The objects that the demo creates in addition to the websites and their children.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use pintle::prelude::*;
use tokio::time::sleep;

/// The CustomResourceDefinition and the namespaces. Excludes objects that existed before this run.
#[derive(Default)]
pub(crate) struct Created(Vec<(ApiResource, ObjectKey)>);

impl Created {
    pub(crate) fn add(&mut self, resource: ApiResource, key: ObjectKey) {
        self.0.push((resource, key));
    }

    /// Deletes the objects. When a namespace is deleted, the server deletes all objects in it.
    pub(crate) async fn delete(&self, cluster: &Cluster) -> Result<()> {
        for (resource, key) in self.0.iter().rev() {
            let api: Api<DynamicObject> = Api::dynamic(cluster.client().clone(), resource.clone(), None)?;
            match api.delete(key.clone(), &DeleteOptions::default()).await {
                Err(error) if !error.is_not_found() => return Err(error).with_context(|| format!("{resource} {key}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Creates `object` unless it exists. If the existing object is being deleted, waits for the deletion and then
    /// creates the object.
    pub(crate) async fn ensure(
        &mut self,
        cluster: &Cluster,
        resource: ApiResource,
        object: &DynamicObject,
    ) -> Result<()> {
        let api: Api<DynamicObject> = Api::dynamic(cluster.client().clone(), resource.clone(), None)?;
        for _ in 0..300 {
            match api.create(object, &WriteOptions::default()).await {
                Ok(created) => {
                    self.add(resource, created.key());
                    return Ok(());
                }
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error.into()),
            }
            match api.get_opt(object.key()).await? {
                Some(there) if there.metadata.deletion_timestamp.is_none() => return Ok(()),
                _ => sleep(Duration::from_millis(200)).await,
            }
        }
        bail!("it is still being deleted after one minute")
    }
}
