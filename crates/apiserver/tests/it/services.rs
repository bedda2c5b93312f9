//! Tests of a Service's ports, addresses and policies after creates and updates.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig::default()).await.expect("a server")
}

async fn create(server: &ApiServer, name: &str, mut spec: Json) -> Json {
    spec.set_default("ports", json!([{"port": 80}]));
    let made = call(server, Method::POST, SERVICES, json!({"metadata": {"name": name}, "spec": spec})).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    made.body
}

async fn put(server: &ApiServer, service: &Json) -> Answer {
    let name = service["metadata"]["name"].as_str().expect("a name");
    call(server, Method::PUT, &format!("{SERVICES}/{name}"), service.clone()).await
}

fn node_ports(service: &Json) -> Vec<Json> {
    service.list("/spec/ports").map(|port| port["nodePort"].clone()).collect()
}

#[tokio::test]
async fn load_balancer_service_releases_unwanted_node_ports() {
    let server = server().await;
    let mut service = create(&server, "a", json!({"type": "LoadBalancer"})).await;
    assert_ne!(node_ports(&service), [Json::Null]);
    service["spec"]["allocateLoadBalancerNodePorts"] = false.into();
    service["spec"]["ports"][0].unset("nodePort");
    assert_eq!(node_ports(&put(&server, &service).await.body), [Json::Null]);
}

#[tokio::test]
async fn node_ports_follow_the_port_name_on_update() {
    let server = server().await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let mut service = create(&server, "a", json!({"type": "NodePort", "ports": ports})).await;
    let before = node_ports(&service);
    // The first update changes the order and numbers of the ports, but keeps their names. The second update gives a
    // port the node port that another port used before.
    service["spec"]["ports"] = json!([{"name": "b", "port": 91}, {"name": "a", "port": 90}]);
    let after = put(&server, &service).await.body;
    assert_eq!(node_ports(&after), [before[1].clone(), before[0].clone()]);
    service = after;
    service["spec"]["ports"] = json!([{"name": "a", "port": 90}, {"name": "c", "port": 92, "nodePort": before[0]}]);
    let after = node_ports(&put(&server, &service).await.body);
    assert_eq!(after[1], before[0]);
    assert!(after[0] != before[0] && after[0] != Json::Null, "{after:?}");
}

#[tokio::test]
async fn fields_that_no_longer_apply_are_dropped_unless_changed() {
    let server = server().await;
    let mut service = create(&server, "a", json!({"externalIPs": ["1.2.3.4"]})).await;
    assert_eq!(service["spec"]["externalTrafficPolicy"], "Cluster");
    service["spec"].unset("externalIPs");
    let service = put(&server, &service).await;
    assert_eq!((service.code, &service.body["spec"]["externalTrafficPolicy"]), (200, &Json::Null));

    let mut service = create(&server, "b", json!({"type": "LoadBalancer", "loadBalancerClass": "x.y/z"})).await;
    service["spec"]["loadBalancerClass"] = "x.y/other".into();
    let refused = put(&server, &service).await;
    let why = "Service \"b\" is invalid: spec.loadBalancerClass: Invalid value: \"x.y/other\": may not change once set";
    assert_eq!(refused.body["message"], why);
    service["spec"]["loadBalancerClass"] = "x.y/z".into();
    service["spec"]["type"] = "ClusterIP".into();
    let service = put(&server, &service).await.body;
    assert_eq!((&service["spec"]["loadBalancerClass"], node_ports(&service)), (&Json::Null, vec![Json::Null]));
}

#[tokio::test]
async fn external_name_services_have_no_internal_traffic_policy() {
    let server = server().await;
    let external = json!({"type": "ExternalName", "externalName": "x.y", "internalTrafficPolicy": "Cluster"});
    assert_eq!(create(&server, "a", external).await["spec"]["internalTrafficPolicy"], Json::Null);
    let mut service = create(&server, "b", json!({})).await;
    assert_eq!(service["spec"]["internalTrafficPolicy"], "Cluster");
    service["spec"]["type"] = "ExternalName".into();
    service["spec"]["externalName"] = "x.y".into();
    let service = put(&server, &service).await;
    assert_eq!((service.code, &service.body["spec"]["internalTrafficPolicy"]), (200, &Json::Null));
}

#[tokio::test]
async fn inconsistent_cluster_ip_changes_are_rejected() {
    let server = server().await;
    let service = create(&server, "a", json!({"clusterIP": "10.0.0.77"})).await;
    let refused = "spec.clusterIPs";
    for (spec, fields) in [
        (json!({"clusterIPs": ["10.0.0.78"]}), vec![refused]),
        (json!({"clusterIPs": ["None", "10.0.0.78"]}), vec![refused, refused]),
        (json!({"clusterIPs": ["10.0.0.77", "10.0.0.78"]}), vec![refused]),
        (json!({"clusterIPs": ["10.0.0.77", "10.0.0.78", "fd00::1"]}), vec![refused]),
        (json!({"clusterIP": "", "clusterIPs": ["a"]}), vec![refused, "spec.clusterIPs[0]"]),
        (json!({"clusterIP": "a"}), vec!["spec.clusterIPs[0]"]),
        (json!({"clusterIP": "10.0.0.78"}), vec!["spec.clusterIPs[0]"]),
        (json!({"ipFamilyPolicy": ""}), vec!["spec.ipFamilyPolicy"]),
    ] {
        let mut changed = service.clone();
        for (key, value) in spec.as_object().expect("members") {
            changed["spec"][key] = value.clone();
        }
        let answer = put(&server, &changed).await;
        let causes = answer.body.list("/details/causes").map(|cause| cause.text("/field"));
        assert_eq!((answer.code, causes.collect()), (422, fields), "{spec}: {:?}", answer.body);
    }
}

#[tokio::test]
async fn local_load_balancers_keep_their_health_check_port() {
    let server = server().await;
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let service = create(&server, "a", local.clone()).await;
    let port = service.integer("/spec/healthCheckNodePort").expect("a port");
    assert!((30000..=32767).contains(&port) && !node_ports(&service).contains(&port.into()), "{port}");

    let mut taken = local.clone();
    taken.set("healthCheckNodePort", port);
    taken.set("ports", json!([{"port": 80}]));
    let refused = call(&server, Method::POST, SERVICES, json!({"metadata": {"name": "b"}, "spec": taken})).await;
    let why = format!("failed to allocate requested HealthCheck NodePort {port}: provided port is already allocated");
    assert_eq!(refused.code, 500);
    assert!(refused.body.text("/message").contains(&why), "{:?}", refused.body);

    let mut same = service.clone();
    same["spec"].unset("healthCheckNodePort");
    assert_eq!(put(&server, &same).await.body.integer("/spec/healthCheckNodePort"), Some(port));
    let mut other = get(&server, &format!("{SERVICES}/a")).await.body;
    other["spec"].set("healthCheckNodePort", if port == 32767 { 30000 } else { port + 1 });
    let refused = put(&server, &other).await;
    assert_eq!((refused.code, refused.body.text("/details/causes/0/field")), (422, "spec.healthCheckNodePort"));

    let mut cluster = get(&server, &format!("{SERVICES}/a")).await.body;
    cluster["spec"].set("externalTrafficPolicy", "Cluster");
    assert_eq!(put(&server, &cluster).await.body["spec"].get("healthCheckNodePort"), None);
}

#[tokio::test]
async fn ip_families_and_addresses_must_match_an_ipv4_cluster() {
    let server = server().await;
    let post = async |spec: Json| {
        let mut service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
        spec.as_object().into_iter().flatten().for_each(|(key, value)| service["spec"][key] = value.clone());
        call(&server, Method::POST, &format!("{SERVICES}?dryRun=All"), service).await
    };
    for (spec, fields) in [
        (json!({"clusterIP": "::1"}), vec!["spec.clusterIPs[0]"]),
        (json!({"clusterIPs": ["::1"]}), vec!["spec.clusterIPs"]),
        (json!({"ipFamilies": ["IPv6"]}), vec!["spec.ipFamilies[0]"]),
        (json!({"ipFamilies": ["IPv4", "IPv6"]}), vec!["spec.ipFamilyPolicy"]),
        (json!({"ipFamilyPolicy": "RequireDualStack"}), vec!["spec.ipFamilyPolicy"]),
        (
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}),
            vec!["spec.ipFamilyPolicy", "spec.ipFamilies[0]"],
        ),
        // Errors about IP families or addresses hide all other errors.
        (json!({"ipFamilyPolicy": "RequireDualStack", "sessionAffinity": "x"}), vec!["spec.ipFamilyPolicy"]),
        (json!({"clusterIP": "1.2.3.4", "ports": []}), vec!["spec.clusterIPs"]),
        (json!({"clusterIP": "10.0.0.0"}), vec!["spec.clusterIPs"]),
        (json!({"clusterIP": "10.0.0.255"}), vec!["spec.clusterIPs"]),
        (json!({"clusterIP": "010.0.0.9"}), vec!["spec.clusterIPs[0]"]),
        (json!({"clusterIP": "10.0.0.5", "ipFamilies": ["IPv6"]}), vec!["spec.clusterIPs[0]"]),
        (json!({"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5", "10.0.0.6"]}), vec!["spec.clusterIPs"]),
        (json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilies": ["IPv6"]}), vec!["spec.ipFamilies[0]"]),
    ] {
        let answer = post(spec.clone()).await;
        let causes = answer.body.list("/details/causes").map(|cause| cause.text("/field"));
        assert_eq!((answer.code, causes.collect()), (422, fields), "{spec}: {:?}", answer.body);
    }
    // A headless Service without a selector may have any IP family.
    for (spec, families, policy) in [
        (json!({}), json!(["IPv4", "IPv6"]), "RequireDualStack"),
        (json!({"ipFamilies": ["IPv6"]}), json!(["IPv6", "IPv4"]), "RequireDualStack"),
        (json!({"ipFamilyPolicy": "SingleStack"}), json!(["IPv4"]), "SingleStack"),
        (json!({"selector": {"a": "b"}}), json!(["IPv4"]), "SingleStack"),
    ] {
        let mut headless = spec.clone();
        headless["clusterIP"] = "None".into();
        let made = post(headless).await.body;
        assert_eq!(
            (&made["spec"]["ipFamilies"], &made["spec"]["ipFamilyPolicy"]),
            (&families, &policy.into()),
            "{spec}"
        );
    }
}

#[tokio::test]
async fn protocols_of_the_same_port_share_a_node_port() {
    let server = server().await;
    let ports =
        json!([{"name": "a", "port": 80}, {"name": "b", "port": 80, "protocol": "UDP"}, {"name": "c", "port": 81}]);
    let service = create(&server, "a", json!({"type": "NodePort", "ports": ports})).await;
    let given = node_ports(&service);
    assert!(given[0] == given[1] && given[1] != given[2], "{given:?}");
    let twice = json!([{"name": "a", "port": 80, "nodePort": 31000}, {"name": "b", "port": 81, "nodePort": 31000}]);
    let service = json!({"metadata": {"name": "b"}, "spec": {"type": "NodePort", "ports": twice}});
    let refused = call(&server, Method::POST, SERVICES, service).await;
    assert_eq!(refused.body["details"]["causes"][0]["field"], "spec.ports[1].nodePort", "{:?}", refused.body);
}

#[tokio::test]
async fn external_name_service_may_repeat_a_node_port() {
    let server = server().await;
    let ports = json!([{"port": 80, "nodePort": 31000}]);
    create(&server, "a", json!({"type": "NodePort", "ports": ports})).await;
    let external = json!({"type": "ExternalName", "externalName": "a.example", "ports": ports});
    let repeated = create(&server, "b", external).await;
    assert_eq!(node_ports(&repeated), [31000]);
    // An ExternalName Service does not own its ports, so deleting it does not release the ports of another Service.
    assert_eq!(call(&server, Method::DELETE, &format!("{SERVICES}/b"), Json::Null).await.code, 200);
    let service = json!({"metadata": {"name": "c"}, "spec": {"type": "NodePort", "ports": ports}});
    assert_eq!(call(&server, Method::POST, SERVICES, service).await.code, 422);
}

#[tokio::test]
async fn health_check_port_differs_from_own_node_ports() {
    let server = server().await;
    let spec = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31500,
        "ports": [{"port": 80, "nodePort": 31500}],
    });
    let service = json!({"metadata": {"name": "a"}, "spec": spec});
    let refused = call(&server, Method::POST, SERVICES, service).await;
    assert_eq!(refused.code, 500, "{:?}", refused.body);
    assert!(refused.body.text("/message").ends_with("provided port is already allocated"), "{:?}", refused.body);
}
