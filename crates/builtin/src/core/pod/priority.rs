//! The admission plugins for a pod's priority, default tolerations and RuntimeClass.

use std::sync::Arc;

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::metadata;
use pintle_json::{Json, json};
use pintle_meta::GroupResource;

use super::{forbidden, runtime};

pub(crate) const SYSTEM_CLASSES: &[(&str, i64)] =
    &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Applies the admission plugins Priority and DefaultTolerationSeconds. For a new pod, also applies the plugin
/// RuntimeClass.
pub(super) fn admit(cluster: &dyn Cluster, pod: &mut Json, old: Option<&Json>) -> Outcome<()> {
    match old {
        None => set_priority(cluster, pod)?,
        Some(old) => {
            for key in ["priority", "preemptionPolicy"] {
                if let (Some(spec), Some(value)) = (pod.get_mut("spec"), old.at(&format!("/spec/{key}"))) {
                    spec.set_default(key, value.clone());
                }
            }
        }
    }
    add_tolerations(pod);
    match old {
        None => runtime::admit(cluster, pod),
        Some(_) => Ok(()),
    }
}

/// Returns the PriorityClass of pods that name no class. If several classes are the global default, returns a class with
/// the lowest value.
pub(crate) fn default_priority_class(cluster: &dyn Cluster) -> Option<Arc<Json>> {
    let all = cluster.objects(&GroupResource::new("scheduling.k8s.io", "priorityclasses"), None).into_iter();
    all.filter(|class| class.is_true("/globalDefault")).min_by_key(|class| class.integer("/value"))
}

fn set_priority(cluster: &dyn Cluster, pod: &mut Json) -> Outcome<()> {
    let class = pod.text("/spec/priorityClassName").to_owned();
    let (value, policy) = if let Some((_, value)) = SYSTEM_CLASSES.iter().find(|(name, _)| *name == class) {
        (*value, "PreemptLowerPriority".to_owned())
    } else {
        let classes = GroupResource::new("scheduling.k8s.io", "priorityclasses");
        let found = if class.is_empty() {
            default_priority_class(cluster)
        } else {
            match cluster.object(&classes, "", &class) {
                Some(class) => Some(class),
                None => return Err(forbidden(pod, &format!("no PriorityClass with name {class} was found"))),
            }
        };
        if let (true, Some(found), Some(spec)) = (class.is_empty(), &found, pod.get_mut("spec")) {
            spec.set("priorityClassName", metadata::name(found));
        }
        let policy = found.as_ref().map_or("", |class| class.text("/preemptionPolicy"));
        let policy = if policy.is_empty() { "PreemptLowerPriority" } else { policy };
        (found.as_ref().and_then(|class| class.integer("/value")).unwrap_or(0), policy.to_owned())
    };
    if let Some(sent) = pod.integer("/spec/priority").filter(|sent| *sent != value) {
        let why = format!(
            "the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller computed {value} \
             from the given PriorityClass name"
        );
        return Err(forbidden(pod, &why));
    }
    if let Some(sent) = pod["spec"]["preemptionPolicy"].as_str().filter(|sent| *sent != policy) {
        let why = format!(
            "the string value of PreemptionPolicy ({sent}) must not be provided in pod spec; priority admission controller computed \
             {policy} from the given PriorityClass name"
        );
        return Err(forbidden(pod, &why));
    }
    if let Some(spec) = pod.member("spec") {
        spec.set("priority", value);
        spec.set("preemptionPolicy", policy);
    }
    Ok(())
}

fn add_tolerations(pod: &mut Json) {
    let Some(spec) = pod.member("spec") else { return };
    let tolerates = |tolerations: &[Json], taint: &str| {
        tolerations.iter().any(|toleration| {
            let key = toleration.text("/key");
            let effect = toleration.text("/effect");
            (key == taint || key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        })
    };
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        if !spec.has("/tolerations") {
            spec.set("tolerations", json!([]));
        }
        if let Some(tolerations) = spec.get_mut("tolerations").and_then(Json::as_array_mut)
            && !tolerates(tolerations, taint)
        {
            tolerations
                .push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}
