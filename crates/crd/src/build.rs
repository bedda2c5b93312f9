//! Builds CustomResourceDefinitions.

use pintle_meta::{Resource, Scope};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::columns;
use crate::declaration::Declaration;
use crate::definition::CustomResourceDefinition;
use crate::selectable;
use crate::structural::structural;

/// A resource with a CustomResourceDefinition. To implement this trait, use `#[derive(Resource)]`. The [crate
/// documentation](crate) contains an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no CustomResourceDefinition",
    note = "add `#[derive(Resource, JsonSchema)]` and `#[resource(group = \"…\", version = \"…\")]` to the struct"
)]
pub trait CustomResource: Resource + JsonSchema {
    /// The attributes of the definition that are not in [`Resource`], such as columns and short names.
    const DECLARATION: Declaration;

    /// Returns this version's CustomResourceDefinition.
    ///
    /// # Panics
    ///
    /// Panics if the type has no structural schema. Panics if the API server would reject a column, the scale
    /// subresource or a selectable field, for example because its path does not exist in the schema. Because the result
    /// depends only on the type, a single test that calls `crd` finds every panic.
    fn crd() -> CustomResourceDefinition {
        match build::<Self>() {
            Ok(definition) => definition,
            Err(why) => panic!("{} has no CustomResourceDefinition: {why}", std::any::type_name::<Self>()),
        }
    }
}

fn build<T: CustomResource + ?Sized>() -> Result<CustomResourceDefinition, String> {
    let (resource, declared) = (T::api_resource(), T::DECLARATION);
    let group = &resource.group_version.group;
    let mut names = json!({
        "kind": resource.kind,
        "listKind": format!("{}List", resource.kind),
        "plural": resource.plural,
        "singular": declared.singular,
    });
    for (key, all) in [("shortNames", declared.short_names), ("categories", declared.categories)] {
        if !all.is_empty() {
            names[key] = all.into();
        }
    }
    let scope = match resource.scope {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
    };
    let version = version::<T>(&resource.group_version.version)?;
    let spec = json!({"group": group, "names": names, "scope": scope, "versions": [version]});
    Ok(CustomResourceDefinition::new(&format!("{}.{group}", resource.plural), spec, declared.package_version))
}

fn version<T: CustomResource + ?Sized>(name: &str) -> Result<Value, String> {
    let declared = T::DECLARATION;
    let schema = schema::<T>()?;
    let mut version = json!({"name": name, "served": declared.is_served, "storage": declared.is_stored});
    if declared.is_deprecated {
        version["deprecated"] = true.into();
    }
    if let Some(warning) = declared.deprecation_warning {
        version["deprecationWarning"] = warning.into();
    }
    let columns = columns::columns(declared.columns, &schema)?;
    if !columns.is_empty() {
        version["additionalPrinterColumns"] = columns.into();
    }
    if declared.has_status {
        version["subresources"]["status"] = json!({});
    }
    if let Some(scale) = declared.scale {
        version["subresources"]["scale"] = columns::scale(scale, &schema)?.into();
    }
    if !declared.selectable_fields.is_empty() {
        version["selectableFields"] = selectable::fields(declared.selectable_fields, &schema)?.into();
    }
    version["schema"] = json!({ "openAPIV3Schema": schema });
    Ok(version)
}

/// Returns the schema of the whole custom resource object. The schema does not restrict `apiVersion`, `kind` and
/// `metadata`, because the API server validates them.
fn schema<T: CustomResource + ?Sized>() -> Result<Value, String> {
    let mut schema = structural::<T>().map_err(|error| error.to_string())?;
    schema.remove("title");
    if schema.get("properties").is_none_or(|properties| properties.get("metadata").is_none()) {
        return Err("the field `metadata` has another name in JSON; remove serde's rename from it".into());
    }
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        // Do not require `status` if it is a subresource, because the API server then drops it from create requests.
        required.retain(|name| name != "metadata" && !(T::DECLARATION.has_status && name == "status"));
        if required.is_empty() {
            schema.remove("required");
        }
    }
    let mut schema = Value::Object(schema);
    for name in ["apiVersion", "kind"] {
        schema["properties"][name] = json!({"type": "string"});
    }
    schema["properties"]["metadata"] = json!({"type": "object"});
    let mut rules = Vec::new();
    for (rule, message) in T::DECLARATION.rules {
        rules.push(match message {
            Some(message) => json!({"rule": rule, "message": message}),
            None if rule.trim().contains(['\n', '\r']) => {
                return Err(format!("the rule {rule:?} contains line breaks; add a message for users"));
            }
            None => json!({ "rule": rule }),
        });
    }
    if !rules.is_empty() {
        let all = &mut schema["x-kubernetes-validations"];
        match all.as_array_mut() {
            Some(of_type) => of_type.append(&mut rules),
            None => *all = rules.into(),
        }
    }
    Ok(schema)
}
