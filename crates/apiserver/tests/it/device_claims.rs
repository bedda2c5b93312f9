//! Tests of the permissions for changing the status of ResourceClaims.

use http::Method;
use pintle_apiserver::ApiServer;
use pintle_json::{Json, json};

use crate::identity::{grant, send_as, server};
use crate::support::*;

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const MERGE: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];

async fn patch_status(server: &ApiServer, token: &str, status: Json) -> Answer {
    let path = format!("{CLAIMS}/a/status");
    let bearer = format!("Bearer {token}");
    let headers = [&[("authorization", bearer.as_str())], MERGE].concat();
    read(send(server, Method::PATCH, &path, &headers, &json!({"status": status}).to_string()).await).await
}

#[tokio::test]
async fn admin_access_to_devices_needs_a_namespace_label() {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    let server = server().await;
    let post =
        async |path: &str, object: &Json| send_as(&server, "root", Method::POST, path, &[], object.clone()).await;
    let spec = |is_admin: bool| {
        let exact = json!({"deviceClassName": "c", "adminAccess": is_admin});
        json!({"devices": {"requests": [{"name": "r", "exactly": exact}]}})
    };
    let claim = |is_admin| json!({"metadata": {"name": "a"}, "spec": spec(is_admin)});
    let template = json!({"metadata": {"name": "a"}, "spec": {"spec": spec(true)}});
    let templates = CLAIMS.replace("resourceclaims", "resourceclaimtemplates");
    let expected = format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
    for (path, object) in [(CLAIMS, &claim(true)), (&templates, &template)] {
        let refused = post(path, object).await;
        let cause = &refused.body["details"]["causes"][0];
        assert_eq!((refused.code, cause.text("/field")), (422, "spec.devices.requests[0].adminAccess"), "{path}");
        assert_eq!(cause.text("/message"), format!("Forbidden: {expected}"), "{path}");
    }
    assert_eq!(post(CLAIMS, &claim(false)).await.code, 201);
    let result = json!({"request": "r", "driver": "d.x", "pool": "p", "device": "d", "adminAccess": true});
    let allocation = json!({"allocation": {"devices": {"results": [result]}}});
    let refused = patch_status(&server, "root", allocation.clone()).await;
    assert!(refused.body.text("/message").contains("status.allocation.devices.results[0].adminAccess: Forbidden"));

    let labels = json!({"metadata": {"labels": {LABEL: "true"}}}).to_string();
    let root = [MERGE, &[("authorization", "Bearer root")]].concat();
    let labelled = send(&server, Method::PATCH, "/api/v1/namespaces/default", &root, &labels).await;
    assert_eq!(read(labelled).await.code, 200);
    assert_eq!(patch_status(&server, "root", allocation).await.code, 200);
    assert_eq!(post(&templates, &template).await.code, 201);
}

#[tokio::test]
async fn claim_status_needs_permissions_for_binding_and_driver() {
    let server = server().await;
    let exact = json!({"deviceClassName": "c"});
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": exact}]}});
    let claim = json!({"metadata": {"name": "a"}, "spec": spec});
    assert_eq!(send_as(&server, "root", Method::POST, CLAIMS, &[], claim).await.code, 201);
    let rule = |resource: &str, verbs: Json| json!({"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": verbs});
    let status = rule("resourceclaims/status", json!(["update", "patch"]));
    grant(&server, "", "status", json!([status, rule("resourceclaims", json!(["get"]))])).await;

    let result = json!({"request": "r", "driver": "d.x", "pool": "p", "device": "d"});
    let allocation = json!({"devices": {"results": [result]}});
    let device = json!({"driver": "d.x", "pool": "p", "device": "d"});
    let allocated = json!({"allocation": allocation, "devices": [device]});
    let refused = patch_status(&server, "weak", allocated.clone()).await;
    let fields: Vec<_> = refused.body.list("/details/causes").map(|cause| cause.text("/field")).collect();
    assert_eq!((refused.code, fields), (422, vec!["status.allocation", "status.devices"]), "{}", refused.body);
    let whole = send_as(&server, "weak", Method::GET, &format!("{CLAIMS}/a"), &[], Json::Null).await.body;
    let mut changed = whole.clone();
    changed.set("status", allocated.clone());
    let refused = send_as(&server, "weak", Method::PUT, &format!("{CLAIMS}/a/status"), &[], changed).await;
    assert!(refused.body.text("/message").contains("verb=\"[arbitrary-node:update]\""), "{}", refused.body);
    assert_eq!(send_as(&server, "weak", Method::PUT, &format!("{CLAIMS}/a/status"), &[], whole).await.code, 200);

    grant(&server, "", "binding", json!([rule("resourceclaims/binding", json!(["patch"]))])).await;
    assert_eq!(patch_status(&server, "weak", json!({"allocation": allocation})).await.code, 200);
    assert_eq!(patch_status(&server, "weak", allocated.clone()).await.code, 422);
    grant(&server, "default", "driver", json!([rule("resourceclaims/driver", json!(["arbitrary-node:patch"]))])).await;
    assert_eq!(patch_status(&server, "weak", allocated).await.code, 200);
    let deallocated = patch_status(&server, "weak", json!({"allocation": null})).await;
    assert_eq!((deallocated.code, deallocated.body.has("/status/devices")), (200, false), "{}", deallocated.body);
}
