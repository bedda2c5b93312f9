"""A typical scenario of a controller, with the official Python client. Each step must succeed before the next one starts."""

import threading
import uuid

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core, apps, leases = client.CoreV1Api(), client.AppsV1Api(), client.CoordinationV1Api()
namespace = f"python-{uuid.uuid4().hex[:8]}"
core.create_namespace({"metadata": {"name": namespace}})


def refused(code, call):
    try:
        call()
    except ApiException as error:
        assert error.status == code, error
    else:
        raise AssertionError(f"the request did not fail with {code}")


# Create, read, list by label, page.
for number in range(5):
    labels = {"half": str(number % 2)}
    core.create_namespaced_config_map(namespace, {"metadata": {"name": f"m{number}", "labels": labels}, "data": {"n": str(number)}})
odd = core.list_namespaced_config_map(namespace, label_selector="half=1").items
assert [found.metadata.name for found in odd] == ["m1", "m3"]
page = core.list_namespaced_config_map(namespace, limit=2)
rest = core.list_namespaced_config_map(namespace, limit=10, _continue=page.metadata._continue)
assert len(page.items) == 2 and len(rest.items) >= 3
refused(409, lambda: core.create_namespaced_config_map(namespace, {"metadata": {"name": "m0"}}))
refused(404, lambda: core.read_namespaced_config_map("absent", namespace))
print("ok  create, read, list, pages")

# A watch that starts at the list, during writes.
events, revision = [], rest.metadata.resource_version


def follow():
    for event in watch.Watch().stream(core.list_namespaced_config_map, namespace, resource_version=revision, timeout_seconds=30):
        events.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            return


follower = threading.Thread(target=follow)
follower.start()
core.patch_namespaced_config_map("m0", namespace, {"data": {"n": "10"}})
stale = core.read_namespaced_config_map("m1", namespace)
core.replace_namespaced_config_map("m1", namespace, stale)
stale.data["n"] = "11"
core.patch_namespaced_config_map("m1", namespace, {"data": {"n": "12"}})
refused(409, lambda: core.replace_namespaced_config_map("m1", namespace, stale))
core.delete_namespaced_config_map("m2", namespace)
follower.join(30)
assert events == [("MODIFIED", "m0"), ("MODIFIED", "m1"), ("DELETED", "m2")], events
print("ok  watch, patch, conflict, delete")

# Server-side apply with the dynamic client, including a conflict.
anything = dynamic.DynamicClient(client.ApiClient())
maps = anything.resources.get(api_version="v1", kind="ConfigMap")
wish = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
anything.server_side_apply(maps, wish, name="applied", namespace=namespace, field_manager="one")
wish["data"]["a"] = "2"
refused(409, lambda: anything.server_side_apply(maps, wish, name="applied", namespace=namespace, field_manager="two"))
forced = anything.server_side_apply(maps, wish, name="applied", namespace=namespace, field_manager="two", force_conflicts=True)
assert forced.data.a == "2"
print("ok  discovery, server-side apply")

# A definition and its objects.
group = f"{namespace}.example.com"
schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}}}
definition = {
    "metadata": {"name": f"widgets.{group}"},
    "spec": {
        "group": group,
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
    },
}
client.ApiextensionsV1Api().create_custom_resource_definition(definition)
for event in watch.Watch().stream(client.ApiextensionsV1Api().list_custom_resource_definition, field_selector=f"metadata.name=widgets.{group}", timeout_seconds=30):
    if any(one.type == "Established" and one.status == "True" for one in (event["object"].status and event["object"].status.conditions) or []):
        break
widgets = client.CustomObjectsApi()
widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
widgets.create_namespaced_custom_object(group, "v1", namespace, "widgets", widget)
widget["metadata"]["name"], widget["spec"]["size"] = "small", 0
refused(422, lambda: widgets.create_namespaced_custom_object(group, "v1", namespace, "widgets", widget))
widgets.patch_namespaced_custom_object_status(group, "v1", namespace, "widgets", "w", {"status": {"seen": True}})
client.ApiextensionsV1Api().delete_custom_resource_definition(f"widgets.{group}")
print("ok  definitions and custom resources")

# A workload, and the deletion of its namespace with all objects.
pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
apps.create_namespaced_deployment(namespace, {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod}})
apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 3}})
assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 3
leases.create_namespaced_lease(namespace, {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "python", "leaseDurationSeconds": 15}})
core.delete_namespace(namespace)
for event in watch.Watch().stream(core.list_namespace, field_selector=f"metadata.name={namespace}", timeout_seconds=60):
    if event["type"] == "DELETED":
        break
refused(404, lambda: core.read_namespace(namespace))
print("ok  workloads, leases, deletion of a namespace")
