//! Evaluates CEL expressions like kube-apiserver, on serializable Rust values and on JSON with a schema.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::sync::Arc;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use pintle::cel::{self, Activation, CALL_LIMIT, Environment, Schema, Type};
use serde::Serialize;
use serde_json::json;

fn main() -> anyhow::Result<()> {
    once()?;
    often()?;
    rule()
}

/// Evaluates an expression once. The fields of the value become variables of the expression.
fn once() -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Request<'a> {
        user: &'a str,
        replicas: u32,
    }
    let answer = cel::evaluate("user in ['ann', 'bob'] && replicas <= 5", &Request { user: "ann", replicas: 3 })?;
    println!("ann may have three replicas: {answer}");
    ensure!(answer == true);
    Ok(())
}

fn often() -> anyhow::Result<()> {
    let environment = Environment::new().variable("pod", Type::Dyn);
    let selected = environment.compile("pod.spec.containers.all(c, c.image.startsWith('registry.example.com/'))")?;
    for (image, expected) in [("registry.example.com/web:1", true), ("nginx", false)] {
        let container = Container { image: Some(image.into()), ..Container::default() };
        let pod = Pod { spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }), ..Pod::default() };
        let accepted = selected.test(&Activation::new().bind_serialized("pod", &pod)?, CALL_LIMIT)?;
        println!("{image}: {}", if accepted { "accepted" } else { "rejected" });
        ensure!(accepted == expected);
    }
    Ok(())
}

/// Evaluates a validation rule of a CustomResourceDefinition. The schema defines the types of the fields and limits the
/// estimated cost.
fn rule() -> anyhow::Result<()> {
    let schema = json!({"type": "object", "properties": {
        "domains": {"type": "array", "maxItems": 16, "items": {"type": "string", "maxLength": 253}},
    }});
    let schema = Arc::new(Schema::new(&schema));
    let environment = Environment::new().data("self", &schema);
    let wrong = environment.compile("self.domain.size() > 0").err().context("the field does not exist")?;
    println!("{wrong}");

    let rule = environment.compile("self.domains.all(d, isURL('https://' + d + '/'))")?;
    println!("the rule costs {} units at most", rule.estimate().max);
    let site = json!({"domains": ["example.com", "not a domain"]});
    ensure!(!rule.test(&Activation::new().bind_result("self", schema.value(&site)), CALL_LIMIT)?);
    Ok(())
}
