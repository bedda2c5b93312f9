// A typical scenario of a controller, with the official JavaScript client. Each step must succeed before the next one starts.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const namespace = `node-${randomBytes(4).toString('hex')}`;
await core.createNamespace({ body: { metadata: { name: namespace } } });

async function refused(code, call) {
  await assert.rejects(call, (error) => error.code === code);
}

async function until(description, holds) {
  const deadline = Date.now() + 30_000;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `timeout while waiting for: ${description}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Create, read, list by label, page.
for (let number = 0; number < 5; number++) {
  const metadata = { name: `m${number}`, labels: { half: String(number % 2) } };
  await core.createNamespacedConfigMap({ namespace, body: { metadata, data: { n: String(number) } } });
}
const odd = await core.listNamespacedConfigMap({ namespace, labelSelector: 'half=1' });
assert.deepEqual(odd.items.map((found) => found.metadata.name), ['m1', 'm3']);
const page = await core.listNamespacedConfigMap({ namespace, limit: 2 });
const rest = await core.listNamespacedConfigMap({ namespace, limit: 10, _continue: page.metadata._continue });
assert.ok(page.items.length === 2 && rest.items.length >= 3);
await refused(409, () => core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'm0' } } }));
await refused(404, () => core.readNamespacedConfigMap({ namespace, name: 'absent' }));
console.log('ok  create, read, list, pages');

// An informer during writes.
const seen = [];
const list = () => core.listNamespacedConfigMap({ namespace, labelSelector: 'half' });
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list, 'half');
for (const event of ['add', 'update', 'delete']) {
  informer.on(event, (object) => seen.push(`${event} ${object.metadata.name}`));
}
await informer.start();
await until('five objects', () => seen.length === 5);
const stale = await core.readNamespacedConfigMap({ namespace, name: 'm1' });
await core.patchNamespacedConfigMap(
  { namespace, name: 'm1', body: { data: { n: '11' } } },
  k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch),
);
await refused(409, () => core.replaceNamespacedConfigMap({ namespace, name: 'm1', body: stale }));
await core.deleteNamespacedConfigMap({ namespace, name: 'm2' });
await until('an update and a deletion', () => seen.length === 7);
assert.deepEqual(seen.slice(5), ['update m1', 'delete m2']);
await informer.stop();
console.log('ok  informer, patch, conflict, delete');

// Server-side apply, including a conflict.
const wish = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied', namespace }, data: { a: '1' } };
const apply = (manager, force) => objects.patch(wish, undefined, undefined, manager, force, k8s.PatchStrategy.ServerSideApply);
await apply('one', false);
wish.data.a = '2';
await refused(409, () => apply('two', false));
assert.equal((await apply('two', true)).data.a, '2');
console.log('ok  server-side apply');

// A definition and its objects.
const group = `${namespace}.example.com`;
const definitions = config.makeApiClient(k8s.ApiextensionsV1Api);
const widgets = config.makeApiClient(k8s.CustomObjectsApi);
const size = { type: 'integer', minimum: 1 };
const openAPIV3Schema = { type: 'object', properties: { spec: { type: 'object', properties: { size } } } };
await definitions.createCustomResourceDefinition({
  body: {
    metadata: { name: `widgets.${group}` },
    spec: {
      group,
      names: { plural: 'widgets', kind: 'Widget' },
      scope: 'Namespaced',
      versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema } }],
    },
  },
});
await until('established', async () => {
  const definition = await definitions.readCustomResourceDefinition({ name: `widgets.${group}` });
  return definition.status?.conditions?.some((one) => one.type === 'Established' && one.status === 'True');
});
const widget = (name, count) => ({
  group,
  version: 'v1',
  namespace,
  plural: 'widgets',
  body: { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name }, spec: { size: count } },
});
await widgets.createNamespacedCustomObject(widget('w', 3));
await refused(422, () => widgets.createNamespacedCustomObject(widget('small', 0)));
await definitions.deleteCustomResourceDefinition({ name: `widgets.${group}` });
console.log('ok  definitions and custom resources');

// The deletion of a namespace.
await core.deleteNamespace({ name: namespace });
await until('gone', () => core.readNamespace({ name: namespace }).then(() => false, (error) => error.code === 404));
console.log('ok  deletion of a namespace');
