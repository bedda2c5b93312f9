//! The cluster of the demo, and the objects that the demo creates in this cluster.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pintle::kubeconfig::{self, Environment, Overrides};
use pintle::meta::FieldValidation;
use pintle::prelude::*;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::created::Created;
use crate::manifests::Manifest;
use crate::website::Website;

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) created: Created,
}

impl Stage {
    /// Connects to the cluster in `kubeconfig`, or starts an embedded cluster.
    pub(crate) async fn open(kubeconfig: Option<&Path>) -> Result<Self> {
        let Some(path) = kubeconfig else {
            return Ok(Self { cluster: Cluster::embedded().await?, created: Created::default() });
        };
        let config = kubeconfig::infer(Some(path.into()), &Overrides::default(), &Environment::of_process())?;
        let cluster = Cluster::connect(config)?;
        let version = cluster.client().get().abs_path(["/version"]).object::<serde_json::Value>().await;
        version.with_context(|| format!("{} does not answer: {}", cluster.config().server, path.display()))?;
        let definitions = cluster.api::<CustomResourceDefinition>();
        let (resource, key) = (CustomResourceDefinition::api_resource(), ObjectKey::cluster("websites.example.com"));
        let mut created = Created::default();
        if definitions.get(key.clone()).await.is_err_and(|error| error.is_not_found()) {
            created.add(resource, key); // the operator will create it
        }
        Ok(Self { cluster, created })
    }

    pub(crate) async fn wait_for_definition(&self) -> Result<()> {
        let sites: Api<Website> = self.cluster.api();
        for _ in 0..200 {
            match sites.list(&ListOptions { limit: 1, ..ListOptions::default() }).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => sleep(Duration::from_millis(50)).await,
                Err(error) => return Err(error).context("cannot list websites"),
            }
        }
        bail!("the server does not serve websites; set RUST_LOG=info to see why")
    }

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
            self.created
                .ensure(&self.cluster, namespaces, &namespace)
                .await
                .with_context(|| format!("namespace {name}"))?;
        }
        Ok(())
    }

    /// Creates the websites with concurrent requests. The server rejects unknown fields, because validation is strict.
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
}
