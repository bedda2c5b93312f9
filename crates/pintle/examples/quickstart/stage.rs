//! The demo's cluster, and the objects that the demo creates there.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pintle::kubeconfig::{self, Environment, Overrides};
use pintle::meta::FieldValidation;
use pintle::prelude::*;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::manifests::Manifest;
use crate::website::Website;

/// The cluster, and the objects that the demo must clean up.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    /// The CustomResourceDefinition and the namespaces, if this run created them.
    created: Vec<(ApiResource, ObjectKey)>,
}

impl Stage {
    /// Connects to `kubeconfig`'s cluster, or starts an embedded cluster.
    pub(crate) async fn open(kubeconfig: Option<&Path>) -> Result<Self> {
        let Some(path) = kubeconfig else {
            return Ok(Self { cluster: Cluster::embedded().await?, created: Vec::new() });
        };
        let config = kubeconfig::infer(Some(path.into()), &Overrides::default(), &Environment::of_process())?;
        let cluster = Cluster::connect(config)?;
        let version = cluster.client().get().abs_path(["/version"]).object::<serde_json::Value>().await;
        let server = &cluster.config().server;
        version.with_context(|| format!("{}: the server {server} does not answer", path.display()))?;
        Ok(Self { cluster, created: Vec::new() })
    }

    /// Creates the CustomResourceDefinition, and waits until the server serves websites.
    pub(crate) async fn define_websites(&mut self, definition: &Manifest) -> Result<()> {
        let definitions = ApiResource::new(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            Scope::Cluster,
        );
        self.ensure(definitions, &definition.object).await.with_context(|| definition.location.to_string())?;
        let sites: Api<Website> = self.cluster.api();
        for _ in 0..200 {
            match sites.list(&ListOptions { limit: 1, ..ListOptions::default() }).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => sleep(Duration::from_millis(50)).await,
                Err(error) => return Err(error).context("cannot list websites"),
            }
        }
        bail!("the definition of websites exists, but the server does not serve them")
    }

    /// Creates the namespaces that the manifests use.
    pub(crate) async fn make_namespaces(&mut self, manifests: &[Manifest]) -> Result<()> {
        let mut names: Vec<&str> = manifests.iter().filter_map(|manifest| manifest.object.namespace()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let mut namespace = DynamicObject::default();
            namespace.types.api_version = "v1".into();
            namespace.types.kind = "Namespace".into();
            namespace.metadata.name = name.into();
            let namespaces = ApiResource::new("v1", "Namespace", "namespaces", Scope::Cluster);
            self.ensure(namespaces, &namespace).await.with_context(|| format!("namespace {name}"))?;
        }
        Ok(())
    }

    /// Creates the websites with concurrent requests. Validation is strict, so the server rejects unknown fields.
    pub(crate) async fn create_websites(&self, manifests: Vec<Manifest>) -> Result<()> {
        const AT_ONCE: usize = 8;
        let sites: Api<DynamicObject> = Api::dynamic(self.cluster.client().clone(), Website::api_resource(), None)?;
        let mut running = JoinSet::new();
        for Manifest { location, object } in manifests {
            if running.len() >= AT_ONCE {
                running.join_next().await.transpose()?.transpose()?;
            }
            let sites = sites.clone();
            running.spawn(async move {
                let options =
                    WriteOptions { field_validation: Some(FieldValidation::Strict), ..WriteOptions::default() };
                match sites.create(&object, &options).await {
                    Err(error) if error.is_already_exists() => Ok(()),
                    other => {
                        other.map(drop).with_context(|| format!("{location}: {} {}", object.types.kind, object.key()))
                    }
                }
            });
        }
        while let Some(created) = running.join_next().await {
            created??;
        }
        Ok(())
    }

    /// Deletes the objects that [`ensure`](Self::ensure) has created. The server then deletes everything in the deleted
    /// namespaces.
    pub(crate) async fn clean_up(&self) -> Result<()> {
        for (resource, key) in self.created.iter().rev() {
            let api: Api<DynamicObject> = Api::dynamic(self.cluster.client().clone(), resource.clone(), None)?;
            match api.delete(key.clone(), &DeleteOptions::default()).await {
                Err(error) if !error.is_not_found() => return Err(error).with_context(|| format!("{resource} {key}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Creates `object` unless it exists. If an existing object is being deleted, waits for the deletion and creates
    /// the object again.
    async fn ensure(&mut self, resource: ApiResource, object: &DynamicObject) -> Result<()> {
        let api: Api<DynamicObject> = Api::dynamic(self.cluster.client().clone(), resource.clone(), None)?;
        for _ in 0..300 {
            match api.create(object, &WriteOptions::default()).await {
                Ok(created) => {
                    self.created.push((resource, created.key()));
                    return Ok(());
                }
                Err(error) if error.is_already_exists() => {}
                Err(error) => return Err(error.into()),
            }
            match api.get(object.key()).await {
                Ok(there) if there.metadata.deletion_timestamp.is_none() => return Ok(()),
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => sleep(Duration::from_millis(200)).await,
            }
        }
        bail!("it is still being deleted after one minute")
    }
}
