//! Writes the status of ValidatingAdmissionPolicies, which contains the warnings of the type check and the checked
//! generation. In a real cluster, kube-controller-manager writes the status of these policies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pintle_admission::policy::TypeCheck;
use pintle_apiextensions::DEFINITIONS;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_cel::Schema;
use pintle_discovery::MatchedKinds;
use pintle_json::{Json, json};
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, Kinds, RequestTarget};
use pintle_meta::GroupVersionKind;
use pintle_serving::offload;
use pintle_storage::{Change, Key, Stored};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Controller, all};
use crate::registry::{Registry, UpdateSource};

const GROUP: &str = "admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
/// The field manager that kube-controller-manager uses to write the status.
const MANAGER: &str = "validatingadmissionpolicy-status-controller";
/// The controller yields to other tasks after this number of expressions.
const EXPRESSIONS_PER_TURN: usize = 64;
/// The maximum number of schemas that are cached for later checks. A large schema takes about 1 MiB.
const MAX_SCHEMAS: usize = 32;

/// The controller that checks policies. Like kube-controller-manager, the controller checks a policy when its spec
/// changes. Unlike kube-controller-manager, the controller also checks a policy when a custom resource definition in
/// one of the policy's groups changes. Therefore, the policy and the definition can be created in any order.
#[derive(Debug)]
pub(super) struct PolicyStatus {
    /// The changed policies. The map's value is `true` for a policy that must be checked again although its generation
    /// is unchanged.
    due: BTreeMap<Key, bool>,
    definitions: BTreeSet<Key>,
    changed_revision: u64,
    /// The revision up to which the CustomResourceDefinition controller has updated the served kinds.
    served_revision: watch::Receiver<u64>,
    wake: watch::Sender<()>,
}

impl PolicyStatus {
    pub(super) fn new(served_revision: watch::Receiver<u64>, wake: watch::Sender<()>) -> Self {
        Self { due: BTreeMap::new(), definitions: BTreeSet::new(), changed_revision: 0, served_revision, wake }
    }

    async fn wait_for_kinds(&mut self) {
        self.wake.send_replace(());
        let changed_revision = self.changed_revision;
        // Ignore an error. It means that the CustomResourceDefinition controller has ended, and that the last known
        // kinds are used.
        drop(self.served_revision.wait_for(|served_revision| *served_revision >= changed_revision).await);
    }

    fn add_affected(&mut self, registry: &Registry) {
        let definitions = std::mem::take(&mut self.definitions);
        let groups: BTreeSet<&str> = definitions.iter().filter_map(|key| Some(key.split_once('.')?.1)).collect();
        if groups.is_empty() {
            return;
        }
        for (key, stored) in all(registry, POLICIES) {
            let policy = stored.only(&["spec.matchConstraints.resourceRules", "spec.paramKind"]);
            if pintle_discovery::names_group(&policy["spec"], &groups) {
                self.due.insert(key, true);
            }
        }
    }
}

impl Controller for PolicyStatus {
    const RESOURCES: Option<&'static [&'static str]> = Some(&[POLICIES, DEFINITIONS]);

    fn observe(&mut self, change: &Change) -> bool {
        match &**change.resource() {
            POLICIES => drop(self.due.entry(change.key.clone()).or_default()),
            _ => {
                self.definitions.insert(change.key.clone());
                self.changed_revision = self.changed_revision.max(change.new.revision());
            }
        }
        true
    }

    fn resync(&mut self, registry: &Registry) {
        self.changed_revision = registry.db.revision();
        self.due.extend(all(registry, POLICIES).map(|(key, _)| (key, true)));
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        // In a plan, the upstream cluster checks its own policies.
        if registry.db.is_mirror() {
            self.due.clear();
            self.definitions.clear();
            return None;
        }
        self.wait_for_kinds().await;
        self.add_affected(registry);
        let due = std::mem::take(&mut self.due);
        if due.is_empty() {
            return None;
        }
        let kinds = registry.kinds();
        let kind = kinds.group_kind(GROUP, "ValidatingAdmissionPolicy")?;
        let mut checks = Checks::new(&kinds);
        for (name, must_recheck) in due {
            let Some(stored) = registry.db.get(POLICIES, &name) else { continue };
            let policy = Policy::new(&stored);
            if policy.is_checked() && !must_recheck {
                continue;
            }
            let type_checking = checks.check(&policy.spec).await;
            if policy.is_checked() && policy.status.get("typeChecking") == Some(&type_checking) {
                continue;
            }
            if let Err(failure) = write_status(registry, kind, &name, policy.generation, &type_checking) {
                tracing::debug!(%name, error = failure.status.message, "cannot write the status of a policy");
            }
        }
        None
    }
}

struct Policy {
    generation: i64,
    spec: Json,
    status: Json,
}

impl Policy {
    fn new(stored: &Stored) -> Self {
        let mut object = stored.decode();
        let mut part = |name: &str| object.get_mut(name).map(std::mem::take).unwrap_or_default();
        let (spec, status, metadata) = (part("spec"), part("status"), part("metadata"));
        Self { generation: metadata.integer("/generation").unwrap_or(0), spec, status }
    }

    fn is_checked(&self) -> bool {
        self.status.integer("/observedGeneration").is_some_and(|checked| checked >= self.generation)
    }
}

struct Checks<'k> {
    kinds: &'k Kinds,
    matched: MatchedKinds<'k>,
    schemas: HashMap<(GroupVersionKind, TypeName), Option<Arc<Schema>>>,
}

/// Whether a schema describes a policy's objects or its parameters. The CEL types need different names, because the
/// objects and the parameters can have the same kind, or kinds with the same name. As in kube-controller-manager, a
/// type name consists of the kind and a number. The numbers in kube-controller-manager's type names depend on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TypeName {
    Objects = 1,
    Parameters = 2,
}

impl<'k> Checks<'k> {
    fn new(kinds: &'k Kinds) -> Self {
        Self { kinds, matched: MatchedKinds::new(kinds), schemas: HashMap::new() }
    }

    async fn check(&mut self, spec: &Json) -> Json {
        let mut check = TypeCheck::new(spec);
        let params = spec.has("/paramKind").then(|| {
            let (api_version, name) = (spec.text("/paramKind/apiVersion"), spec.text("/paramKind/kind"));
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let kind = self.kinds.kind(group, version, name)?.clone();
            self.schema(&kind, TypeName::Parameters)
        });
        'kinds: for kind in self.matched.matching(spec).await {
            yield_and_offload().await;
            let Some(schema) = self.schema(kind, TypeName::Objects) else { continue };
            let params = params.as_ref().map(Option::as_ref);
            let Some(environment) = check.environment(&schema, params) else { break };
            let gvk = kind.gvk();
            for field in 0..check.fields() {
                if field % EXPRESSIONS_PER_TURN == 0 {
                    yield_and_offload().await;
                }
                if !check.check(field, &gvk, &environment) {
                    break 'kinds;
                }
            }
        }
        check.finish()
    }

    fn schema(&mut self, kind: &Kind, name: TypeName) -> Option<Arc<Schema>> {
        if self.schemas.len() >= MAX_SCHEMAS {
            self.schemas.clear();
        }
        let schema = self.schemas.entry((kind.gvk(), name)).or_insert_with(|| {
            let type_name = format!("{}{}", kind.kind, name as u8);
            Some(Arc::new(Schema::named_resource(&pintle_discovery::inlined(kind)?, &type_name)))
        });
        schema.clone()
    }
}

/// Yields to other tasks, and then offloads the caller's code up to the next `.await`.
async fn yield_and_offload() {
    tokio::task::yield_now().await;
    offload::work_on(offload::ALWAYS).await;
}

/// Writes the status of a policy. If the policy's spec has changed since the check, that change triggers another check.
fn write_status(
    registry: &Registry,
    kind: &Arc<Kind>,
    name: &str,
    generation: i64,
    type_checking: &Json,
) -> Outcome<()> {
    let applied = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {"name": name},
        "status": {"observedGeneration": generation, "typeChecking": type_checking},
    });
    let options = WriteOptions { field_manager: MANAGER.into(), force: true, ..WriteOptions::default() };
    let writer = Writer::new(&options, "", registry.clock.now_text());
    let make = |live: Option<&Json>| match live {
        Some(live) => writer.apply(kind, Some(live), &applied, Subresource::Status),
        None => Err(Failure::not_found(&kind.resource(), name)),
    };
    let target = RequestTarget { subresource: Subresource::Status, ..RequestTarget::new(kind.clone(), "", name) };
    registry.update(&target, &UpdateSource::Apply(&make), &writer).map(drop)
}
