import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.NamespaceBuilder;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinitionBuilder;
import io.fabric8.kubernetes.api.model.apiextensions.v1.JSONSchemaPropsBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A typical scenario of a controller, with fabric8's client. Each step must succeed before the next one starts. */
public final class Scenario {
    public static void main(String[] arguments) throws Exception {
        String namespace = "java-" + UUID.randomUUID().toString().substring(0, 8);
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            client.namespaces().resource(new NamespaceBuilder().withNewMetadata().withName(namespace).endMetadata().build()).create();
            var maps = client.configMaps().inNamespace(namespace);

            // Create, read, list by label.
            for (int number = 0; number < 5; number++) {
                maps.resource(map("m" + number, Map.of("half", "" + number % 2), Map.of("n", "" + number))).create();
            }
            List<String> odd = maps.withLabel("half", "1").list().getItems().stream().map(m -> m.getMetadata().getName()).toList();
            require(odd.equals(List.of("m1", "m3")), odd);
            refused(409, () -> maps.resource(map("m0", Map.of(), Map.of())).create());
            require(maps.withName("absent").get() == null, "an object that should not exist");
            System.out.println("ok  create, read, list");

            // An informer during writes.
            BlockingQueue<String> seen = new LinkedBlockingQueue<>();
            try (var informer = maps.withLabel("half").inform(new ResourceEventHandler<ConfigMap>() {
                public void onAdd(ConfigMap map) { seen.add("add"); }
                public void onUpdate(ConfigMap old, ConfigMap map) { seen.add("update " + map.getMetadata().getName()); }
                public void onDelete(ConfigMap map, boolean unknown) { seen.add("delete " + map.getMetadata().getName()); }
            })) {
                for (int number = 0; number < 5; number++) {
                    expect(seen, "add");
                }
                ConfigMap stale = maps.withName("m1").get();
                maps.withName("m1").patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\":{\"n\":\"11\"}}");
                expect(seen, "update m1");
                refused(409, () -> maps.resource(stale).update());
                maps.withName("m2").delete();
                expect(seen, "delete m2");
            }
            System.out.println("ok  informer, patch, conflict, delete");

            // Server-side apply, including a conflict.
            maps.resource(map("applied", Map.of(), Map.of("a", "1"))).fieldManager("one").serverSideApply();
            ConfigMap other = map("applied", Map.of(), Map.of("a", "2"));
            refused(409, () -> maps.resource(other).fieldManager("two").serverSideApply());
            ConfigMap forced = maps.resource(other).fieldManager("two").forceConflicts().serverSideApply();
            require(forced.getData().get("a").equals("2"), forced);
            System.out.println("ok  server-side apply");

            definition(client, namespace);

            client.namespaces().withName(namespace).delete();
            client.namespaces().withName(namespace).waitUntilCondition(found -> found == null, 30, TimeUnit.SECONDS);
            System.out.println("ok  deletion of a namespace");
        }
    }

    private static void definition(KubernetesClient client, String namespace) throws Exception {
        String group = namespace + ".example.com";
        var size = new JSONSchemaPropsBuilder().withType("integer").withMinimum(1.0).build();
        var spec = new JSONSchemaPropsBuilder().withType("object").addToProperties("size", size).build();
        var definition = new CustomResourceDefinitionBuilder()
            .withNewMetadata().withName("widgets." + group).endMetadata()
            .withNewSpec()
            .withGroup(group).withScope("Namespaced").withNewNames().withPlural("widgets").withKind("Widget").endNames()
            .addNewVersion().withName("v1").withServed(true).withStorage(true)
            .withNewSchema().withNewOpenAPIV3Schema().withType("object").addToProperties("spec", spec).endOpenAPIV3Schema().endSchema()
            .endVersion()
            .endSpec().build();
        var made = client.apiextensions().v1().customResourceDefinitions().resource(definition);
        made.create();
        made.waitUntilCondition(found -> found != null && found.getStatus() != null && found.getStatus().getConditions().stream()
            .anyMatch(one -> one.getType().equals("Established") && one.getStatus().equals("True")), 30, TimeUnit.SECONDS);
        var widgets = client.genericKubernetesResources(group + "/v1", "Widget").inNamespace(namespace);
        widgets.resource(widget(group, "w", 3)).create();
        refused(422, () -> widgets.resource(widget(group, "small", 0)).create());
        require(widgets.list().getItems().size() == 1, "a wrong number of widgets");
        made.delete();
        System.out.println("ok  definitions and custom resources");
    }

    private static GenericKubernetesResource widget(String group, String name, int size) {
        GenericKubernetesResource widget = new GenericKubernetesResource();
        widget.setApiVersion(group + "/v1");
        widget.setKind("Widget");
        widget.setMetadata(new io.fabric8.kubernetes.api.model.ObjectMetaBuilder().withName(name).build());
        widget.setAdditionalProperties(Map.of("spec", Map.of("size", size)));
        return widget;
    }

    private static ConfigMap map(String name, Map<String, String> labels, Map<String, String> data) {
        return new ConfigMapBuilder().withNewMetadata().withName(name).withLabels(labels).endMetadata().withData(data).build();
    }

    private static void expect(BlockingQueue<String> seen, String event) throws InterruptedException {
        String found = seen.poll(30, TimeUnit.SECONDS);
        require(event.equals(found), found);
    }

    private static void refused(int code, Runnable call) {
        try {
            call.run();
        } catch (KubernetesClientException error) {
            require(error.getCode() == code, error);
            return;
        }
        throw new AssertionError("the request did not fail with " + code);
    }

    private static void require(boolean holds, Object found) {
        if (!holds) {
            throw new AssertionError("found " + found);
        }
    }
}
