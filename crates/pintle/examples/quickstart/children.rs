//! Pure functions that compute the child objects of a website from its spec.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ContainerPort, PodSpec, PodTemplateSpec, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use pintle::meta::Object;

use crate::website::{Theme, Website};

const SITE: &str = "example.com/site";

pub(crate) fn config_map(site: &Website) -> ConfigMap {
    let mut data = site.spec.pages.clone();
    data.insert("style.css".into(), stylesheet(site.spec.theme).into());
    ConfigMap { metadata: metadata(site), data: Some(data), ..ConfigMap::default() }
}

pub(crate) fn deployment(site: &Website) -> Deployment {
    let labels = labels(site);
    let container = Container {
        name: "web".into(),
        image: Some("registry.example/web:1".into()),
        ports: Some(vec![ContainerPort { container_port: 8080, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![VolumeMount {
            name: "pages".into(),
            mount_path: "/srv/www".into(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    };
    let pages = Volume {
        name: "pages".into(),
        config_map: Some(ConfigMapVolumeSource { name: site.name().into(), ..ConfigMapVolumeSource::default() }),
        ..Volume::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels.clone()), ..ObjectMeta::default() }),
        spec: Some(PodSpec { containers: vec![container], volumes: Some(vec![pages]), ..PodSpec::default() }),
    };
    let spec = DeploymentSpec {
        replicas: Some(site.spec.replicas),
        selector: LabelSelector { match_labels: Some(labels), ..LabelSelector::default() },
        template,
        ..DeploymentSpec::default()
    };
    Deployment { metadata: metadata(site), spec, ..Deployment::default() }
}

fn metadata(site: &Website) -> ObjectMeta {
    ObjectMeta { name: Some(site.name().into()), labels: Some(labels(site)), ..ObjectMeta::default() }
}

fn labels(site: &Website) -> BTreeMap<String, String> {
    [(SITE.to_owned(), site.name().to_owned())].into()
}

fn stylesheet(theme: Theme) -> &'static str {
    match theme {
        Theme::Dark => "body { background: #111; color: #eee }",
        Theme::Light => "body { background: #fff; color: #222 }",
        Theme::Plain => "",
    }
}
