//! Tests of the client against the embedded server.

use pintle::apiserver::{ApiServer, ApiServerConfig};
use pintle::kubeconfig::{self, Environment, Overrides};
use pintle::meta::{DynamicObject, ListOptions, ObjectKey, Reason, Resource, Secret, WriteOptions};
use pintle::restreq::Api;

use crate::support::{ConfigMap, client, create, server};

#[tokio::test]
async fn client_connects_over_tls_with_the_servers_kubeconfig() {
    let server = ApiServer::start(ApiServerConfig { tls: true, ..ApiServerConfig::default() }).await.unwrap();
    let folder = std::env::temp_dir().join(format!("pintle-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kubeconfig");
    std::fs::write(&path, server.kubeconfig()).unwrap();

    let config = kubeconfig::infer(Some(path), &Overrides::default(), &Environment::default()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(config.server.starts_with("https://127.0.0.1:"), "{}", config.server);
    let maps: Api<ConfigMap> = Api::namespaced(client(config), "default");
    let created = create(&maps, "a").await;
    assert_eq!(maps.get("a").await.unwrap(), created);
    server.shutdown().await;
}

#[tokio::test]
async fn wrong_token_returns_unauthorized_and_is_redacted() {
    let folder = std::env::temp_dir().join(format!("pintle-scenario-tokens-{}", std::process::id()));
    std::fs::write(&folder, "right,admin,1,\"system:masters\"\n").unwrap();
    let config = ApiServerConfig { token_auth_file: Some(folder.clone()), ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.unwrap();
    std::fs::remove_file(&folder).unwrap();
    let mut config = server.client_config();
    config.token = Some(Secret::new("hush-wrong"));
    let maps: Api<ConfigMap> = Api::namespaced(client(config), "default");
    let error = maps.list(&ListOptions::default()).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Unauthorized));
    assert!(!format!("{error:?} {error}").contains("hush"), "{error:?}");
    server.shutdown().await;
}

#[tokio::test]
async fn typed_dynamic_and_metadata_handles_read_the_same_object() {
    let server = server().await;
    let client = client(server.client_config());
    let own: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let created = create(&own, "a").await;

    let generated: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client.clone(), "default");
    let dynamic: Api<DynamicObject> = Api::dynamic(client, ConfigMap::api_resource(), Some("default")).unwrap();
    assert_eq!(generated.get("a").await.unwrap().metadata.uid.as_ref(), Some(&created.metadata.uid));
    assert_eq!(dynamic.get("a").await.unwrap().metadata, created.metadata);
    server.shutdown().await;
}

#[cfg(feature = "gzip")]
#[tokio::test]
async fn facade_client_supports_gzip_and_layers() {
    use pintle::restreq::{RestClient, RestClientConfig};

    let server = server().await;
    let config = RestClientConfig { gzip: true, transport_layer: None, ..server.client_config().into() };
    create(&Api::namespaced(RestClient::new(config).unwrap(), "default"), "a").await;
    server.shutdown().await;
}

#[tokio::test]
async fn stale_write_conflicts_and_changes_nothing() {
    let server = server().await;
    let maps: Api<ConfigMap> = Api::namespaced(client(server.client_config()), "default");
    let old = create(&maps, "a").await;
    let mut new = old.clone();
    new.data.insert("k".into(), "v".into());
    maps.update(&new, &WriteOptions::default()).await.unwrap();

    let error = maps.update(&old, &WriteOptions::default()).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert_eq!(maps.get(ObjectKey::new("default", "a")).await.unwrap().data, new.data);
    server.shutdown().await;
}
